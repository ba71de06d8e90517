// rows: a row's logits have the same bits however the row is computed (docs/row-invariance.md).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "bench/checks/checks.h"
#include "bench/rows/arm_rows.h"
#include "bench/rows/row_scenarios.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {
namespace {

struct RowsOptions {
  std::string model;
  std::string dtype = "f32";
  std::string kv_dtype = "f32";
  std::string arm;  // path of the tool; empty: that of build/aarch64
  int cases = kNumRowCases;
  int arm_cases = 2;
  Position context = 0;
};

std::string arm_tool_beside_this_build() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "../../aarch64/bin/outrider-rows").lexically_normal().string();
}

// Every kernel of this CPU, with one thread and with two.
Status run_here(const RowsOptions& options, std::vector<std::string>& kernels, RowBook& book) {
  OUTRIDER_ASSIGN_OR_RETURN(const auto files, load_model_files(options.model, {}));
  for (const VectorTarget target : available_vector_targets()) {
    kernels.emplace_back(to_string(target));
    for (const int threads : {1, 2}) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                                make_cpu_model(files, {.dtype = options.dtype,
                                                       .kv_dtype = options.kv_dtype,
                                                       .threads = threads,
                                                       .kernel = kernels.back(),
                                                       .progress = {}}));
      const std::string label = kernels.back() + " threads " + std::to_string(threads);
      std::fprintf(stderr, "rows: %s, %d cases\n", label.c_str(), options.cases);
      for (int number = 0; number < options.cases; ++number) {
        OUTRIDER_RETURN_IF_ERROR(run_row_case(
            *model, make_row_case(number, model->info().vocab_size, options.context), label, book));
      }
    }
  }
  return {};
}

#if defined(__x86_64__)
constexpr const char* kArmKernels[] = {"neon", "neondot", "neoni8mm"};  // the emulator has them all
#else
constexpr const char* kArmKernels[] = {"neon", "auto"};
#endif

// Whether the rows of the Arm build were compared. If not, `outcome` says why.
Result<bool> run_on_arm(const RowsOptions& options, RowBook& book, CheckOutcome& outcome) {
  const std::string tool = options.arm.empty() ? arm_tool_beside_this_build() : options.arm;
  const int cases = std::min(options.arm_cases, options.cases);
  for (const char* kernel : kArmKernels) {
    const auto rows = run_arm_rows({.tool = tool,
                                    .model = options.model,
                                    .dtype = options.dtype,
                                    .kv_dtype = options.kv_dtype,
                                    .kernel = kernel,
                                    .cases = cases,
                                    .context = options.context});
    if (!rows.ok()) {
      if (rows.status().code() != StatusCode::kNotFound || !options.arm.empty()) {
        return rows.status();
      }
      outcome.mark_inconclusive("no row was computed on Arm: " + rows.status().message());
      return false;
    }
    if (rows->empty()) return internal_error(tool + " printed no rows");
    for (const auto& [row, hash] : *rows) {
      book.record(row, std::string("aarch64 ") + kernel, hash);
    }
  }
  return true;
}

Result<CheckOutcome> run_rows(const RowsOptions& options) {
  RowBook book;
  std::vector<std::string> kernels;
  OUTRIDER_RETURN_IF_ERROR(run_here(options, kernels, book));
  CheckOutcome outcome;
  OUTRIDER_ASSIGN_OR_RETURN(const bool arm, run_on_arm(options, book, outcome));
  for (const std::string& row : book.mismatched()) {
    std::fprintf(stderr, "rows: differs: %s\n", row.c_str());
  }
  outcome.passed = book.mismatches() == 0 && book.compared() > 0;
  outcome.figures = {{"compared", book.compared()},
                     {"mismatches", book.mismatches()},
                     {"rows", book.hashes().size()},
                     {"dtype", options.dtype},
                     {"context", options.context},
                     {"kernels", kernels},
                     {"aarch64", arm ? "compared" : "not compared"}};
  return outcome;
}

}  // namespace

void add_rows_check(CheckList& checks) {
  auto options = std::make_shared<RowsOptions>();
  CLI::App* command = checks.add("rows", "A row's logits have the same bits however it is computed",
                                 [options] { return run_rows(*options); });
  command->add_option("--model", options->model, "Model directory or GGUF file")->required();
  command->add_option("--dtype", options->dtype, "auto, f32, bf16, int8 or int4");
  command->add_option("--kv-dtype", options->kv_dtype, "Keys and values: f32 or bf16");
  command->add_option("--cases", options->cases, "Cases to run")
      ->check(CLI::Range(1, kNumRowCases));
  command
      ->add_option("--context", options->context,
                   "Tokens added to prompts, which are 3 to 150 long without")
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--arm", options->arm,
                      "outrider-rows for aarch64 [that of build/aarch64, if it exists]");
  command->add_option("--arm-cases", options->arm_cases, "Cases to run on Arm; an emulator is slow")
      ->check(CLI::Range(1, kNumRowCases));
}

}  // namespace outrider
