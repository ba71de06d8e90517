// outrider-gpu-proof: that the CUDA kernels, and a model on them, have the CPU's bits, by fibers in
// drawn orders: what takes too long for the tests. Exit code 1 if a bit differs.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/gpu/model_check.h"
#include "common/base/vector_targets.h"
#include "common/engine/model/cuda/cases/case_memory.h"
#include "common/engine/model/cuda/cases/drawn.h"
#include "common/engine/model/cuda/cases/kernel_cases.h"
#include "common/engine/model/cuda/fibers/fibers.h"
#include "common/engine/model/cuda/fibers/host_device.h"

namespace outrider::gpu {
namespace {

struct Options {
  std::int64_t outputs = 10'000'000;
  std::int64_t choices = 100'000;
  std::uint64_t seed = 1;
  ModelCheckOptions model = {.kv_bytes = std::int64_t{256} << 20};
};

class Proof {
 public:
  explicit Proof(const Options& options) : options_(options), seed_(options.seed) {}

  // Draws cases of every kernel until so many numbers are compared.
  void run_kernels() {
    Drawn drawn(options_.seed);
    for (std::int64_t round = 0; outputs_ < options_.outputs; ++round) {
      for (const WeightKind& kind : weight_kinds()) {
        const std::int64_t inputs = std::vector<std::int64_t>{576, 896, 1000}[size(round % 3)];
        const ProductShape shape{1 + drawn.below(64), {1 + drawn.below(600), 40}, inputs};
        add(check_product(context(), kind, shape));
      }
      for (const CaseResult& result : check_rows(context(), 1 + drawn.below(64), 1000)) add(result);
      const cuda::Heads heads{2 << drawn.below(3), 2, 16 * (1 + drawn.below(8))};
      const bool is_bf16 = drawn.below(2) == 0;
      add(check_placement(context(), 1 + drawn.below(64), heads, is_bf16));
      const auto prefix = static_cast<std::int32_t>(drawn.below(2300));
      add(check_attention(context(), {heads, 1 + drawn.below(12), prefix,
                                      static_cast<std::int32_t>(drawn.below(2) * 100), is_bf16}));
      std::fprintf(stderr, "kernels: %lld of %lld numbers, %lld differ\n",
                   static_cast<long long>(outputs_), static_cast<long long>(options_.outputs),
                   static_cast<long long>(different_));
    }
    std::printf("kernels: %lld numbers, %lld differ, seeds %llu to %llu\n",
                static_cast<long long>(outputs_), static_cast<long long>(different_),
                static_cast<unsigned long long>(options_.seed),
                static_cast<unsigned long long>(seed_));
  }

  // Rows of vocabularies from a small model's to a large one's, mostly small ones.
  void run_choices() {
    constexpr std::int64_t kRows = 20, kVocabularies[] = {32'000, 49'152, 128'256, 151'936};
    Drawn drawn(options_.seed);
    std::int64_t rows = 0, wrong = 0, least = kVocabularies[3], most = 0;
    for (std::int64_t number = 0; rows < options_.choices; ++number) {
      const std::int64_t tokens = number % 20 == 19 ? kVocabularies[number / 20 % 4]
                                                    : 3'072 - drawn.below(2) * drawn.below(3'000);
      const CaseResult result = check_choices(context(), kRows, tokens);
      add(result);
      rows += result.outputs;
      wrong += result.different;
      least = std::min(least, tokens);
      most = std::max(most, tokens);
      if (number % 500 == 0) {
        std::fprintf(stderr, "choices: %lld of %lld rows, %lld differ\n",
                     static_cast<long long>(rows), static_cast<long long>(options_.choices),
                     static_cast<long long>(wrong));
      }
    }
    std::printf("choices: %lld rows of %lld to %lld tokens, %lld differ\n",
                static_cast<long long>(rows), static_cast<long long>(least),
                static_cast<long long>(most), static_cast<long long>(wrong));
  }

  Status run_model() {
    OUTRIDER_ASSIGN_OR_RETURN(const ModelCheck check, check_model(options_.model, [&] {
                                return Result(cuda::make_host_device({.seed = ++seed_}));
                              }));
    for (const auto& row : check.rows) std::printf("%s\n", row.dump().c_str());
    model_holds_ = check.holds;
    return {};
  }

  bool holds() const { return different_ == 0 && model_holds_; }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  CaseContext context() {
    fibers::set_seed(++seed_);
    return {kernels_for(best_vector_target()), memory_, seed_};
  }
  void add(const CaseResult& result) {
    outputs_ += result.outputs;
    different_ += result.different;
    if (result.different == 0) return;
    std::printf("DIFFERS: %s, seed %llu: %lld of %lld\n", result.name.c_str(),
                static_cast<unsigned long long>(seed_), static_cast<long long>(result.different),
                static_cast<long long>(result.outputs));
  }

  const Options& options_;
  std::uint64_t seed_;
  HostMemory memory_;
  std::int64_t outputs_ = 0, different_ = 0;
  bool model_holds_ = true;
};

int run(const Options& options) {
  Proof proof(options);
  if (options.outputs > 0) proof.run_kernels();
  if (options.choices > 0) proof.run_choices();
  if (!options.model.model.empty()) {
    const Status status = proof.run_model();
    if (!status.ok()) {
      std::fprintf(stderr, "outrider-gpu-proof: %s\n", status.to_string().c_str());
      return 2;
    }
  }
  return proof.holds() ? 0 : 1;
}

}  // namespace
}  // namespace outrider::gpu

int main(int argc, char** argv) {
  outrider::gpu::Options options;
  CLI::App app("Compares the CUDA kernels, by fibers, and a model on them with the CPU's.");
  app.add_option("--outputs", options.outputs, "Numbers of kernels to compare; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--choices", options.choices, "Rows of which tokens are chosen; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "Of the first case");
  app.add_option("--model", options.model.model, "A model's directory or file; none without it");
  app.add_option("--dtype", options.model.dtypes, "The model's, one or more")->delimiter(',');
  app.add_option("--cases", options.model.cases, "Of the 14 cases of the rows check")
      ->check(CLI::Range(0, 14));
  app.add_option("--layers", options.model.layers, "Only the model's first ones; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--answer", options.model.answers,
               "Also a prompt of 128 rows, a tree of 33, and 8 tokens one by one");
  CLI11_PARSE(app, argc, argv);
  return outrider::gpu::run(options);
}
