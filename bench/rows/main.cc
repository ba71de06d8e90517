// outrider-rows: prints the bits of a model's rows, to compare them with another CPU's.
//
//   outrider-rows --model DIR --dtype f32 --cases 2
//   0/prompt 0 8754329087435098
//   ...
//
// One line per row: its name and the hash of its logits in hex (bench/rows/row_scenarios.h).
// It uses only the cpu engine, so that it can be built for any CPU and run in an emulator.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>

#include "bench/rows/row_scenarios.h"
#include "common/base/posix.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {
namespace {

Status print_rows(const std::string& directory, const CpuModelOptions& options, int cases,
                  Position context) {
  OUTRIDER_ASSIGN_OR_RETURN(auto files, load_model_files(directory, {}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                            make_cpu_model(std::move(files), options));
  RowBook book;
  for (int number = 0; number < cases; ++number) {
    OUTRIDER_RETURN_IF_ERROR(run_row_case_once(
        *model, make_row_case(number, model->info().vocab_size, context), options.kernel, book));
  }
  for (const auto& [row, hash] : book.hashes()) {
    std::printf("%s %016" PRIx64 "\n", row.c_str(), hash);
  }
  if (std::fflush(stdout) != 0) return unavailable("stdout: " + errno_message(errno));
  return {};
}

}  // namespace
}  // namespace outrider

// CLI11 throws only if a flag is declared wrongly.
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  std::signal(SIGPIPE, SIG_IGN);   // a closed reader is a failed write
  CLI::App app("Prints the bits of a model's rows");
  std::string directory;
  outrider::CpuModelOptions options;
  int cases = 2;
  outrider::Position context = 0;
  app.add_option("--model", directory, "Model directory or GGUF file")->required();
  app.add_option("--dtype", options.dtype, "auto, f32, bf16, int8 or int4");
  app.add_option("--kv-dtype", options.kv_dtype, "Keys and values: f32 or bf16");
  app.add_option("--kernel", options.kernel,
                 "auto, avx2, avx2vnni, avx512, neon, neondot or neoni8mm");
  app.add_option("--threads", options.threads, "Compute threads; 0: one per CPU");
  app.add_option("--cases", cases, "Number of cases")->check(CLI::Range(1, outrider::kNumRowCases));
  app.add_option("--context", context, "Tokens added to prompts")->check(CLI::Range(0, 1 << 20));
  CLI11_PARSE(app, argc, argv);
  const outrider::Status status = outrider::print_rows(directory, options, cases, context);
  if (status.ok()) return 0;
  std::fprintf(stderr, "outrider-rows: %s\n", status.message().c_str());
  return 1;
}
