// decode: how much of the memory's read bandwidth decoding turns into tokens. What a layout pads
// weights with is read, but turns into nothing: it does not count.
//
// Each of three rounds reads all weights in a plain loop, then decodes; figures are those of the
// best round of either, as the loop's and the decoder's luck on a shared machine differ.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "bench/checks/checks.h"
#include "bench/checks/speed/pass_times.h"
#include "bench/checks/speed/read_rate.h"
#include "common/base/clock.h"
#include "common/base/thread_pool.h"
#include "common/model/cpu/cpu_model.h"
#include "common/model/format/model_files.h"

namespace outrider {
namespace {

struct DecodeOptions {
  std::string model;
  std::string dtype = "auto";
  std::string kernel = "auto";
  int threads = 2;
  int tokens = 12;  // per round
  std::string kv_dtype = "f32";
  int context = 0;
  std::vector<int> rows = {};  // none: single tokens one after the other
};

constexpr int kRounds = 3;
constexpr int kPromptTokens = 16;

// Decodes `count` tokens one by one; tokens per second.
Result<double> decode_rate(Model& model, KvCache& cache, int count) {
  PassOutput out;
  const TimePoint start = SystemClock().now();
  for (int i = 0; i < count; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, cache.slots().append(kRootSlot));
    const auto token =
        static_cast<TokenId>(cache.slots().committed() * 7919 % model.info().vocab_size);
    const Row row{&cache, slot, token, true};
    OUTRIDER_RETURN_IF_ERROR(model.forward({&row, 1}, out));
    cache.slots().commit(slot);
  }
  return count / to_seconds(SystemClock().now() - start);
}

struct Rounds {
  std::vector<double> read;    // bytes/s of the plain loop
  std::vector<double> tokens;  // per second
};

// Of the best round of either, for weights of so many bytes.
std::optional<Estimate> bandwidth_ratio(const Rounds& rounds, double weight_bytes) {
  return bootstrap(rounds.read.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     double read = 0, tokens = 0;
                     for (const std::size_t round : indices) {
                       read = std::max(read, rounds.read[round]);
                       tokens = std::max(tokens, rounds.tokens[round]);
                     }
                     return weight_bytes * tokens / read;
                   });
}

// Few bits take more work for each byte that is read.
double least_ratio(const std::string& dtype) {
  if (dtype == "int4") return 0.60;
  return dtype == "int8" ? 0.70 : 0.85;
}

// The most memory this process has held, MB.
double peak_memory_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0)
      return std::strtod(line.c_str() + 6, nullptr) / 1024 * 1.048576;
  }
  return 0;
}

Result<CheckOutcome> run_decode(const DecodeOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const auto files, load_model_files(options.model, {}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                            make_cpu_model(files, {.dtype = options.dtype,
                                                   .kv_dtype = options.kv_dtype,
                                                   .threads = options.threads,
                                                   .kernel = options.kernel,
                                                   .progress = {}}));
  if (!options.rows.empty()) {
    return measure_passes(*model, files->config,
                          {.context = options.context,
                           .rows = options.rows,
                           .threads = options.threads,
                           .kv_bytes = options.kv_dtype == "bf16" ? 2 : 4,
                           .kernel = options.kernel});
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                            model->new_cache(kPromptTokens + kRounds * options.tokens));
  const auto memory = cpu_weight_memory(*model);
  ThreadPool pool(options.threads);
  OUTRIDER_RETURN_IF_ERROR(decode_rate(*model, *cache, kPromptTokens).status());
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round) {
    rounds.read.push_back(read_rate(pool, memory));
    OUTRIDER_ASSIGN_OR_RETURN(const double rate, decode_rate(*model, *cache, options.tokens));
    std::fprintf(stderr, "decode: %.2f tokens/s\n", rate);
    rounds.tokens.push_back(rate);
  }
  const ModelInfo& info = model->info();
  const double weight_mb = static_cast<double>(info.weight_bytes) / 1e6;
  const double padding_mb = static_cast<double>(cpu_weight_padding(*model)) / 1e6;
  const Bar bar{"bandwidth_ratio", *bandwidth_ratio(rounds, (weight_mb - padding_mb) * 1e6),
                least_ratio(info.dtype)};
  CheckOutcome outcome;
  outcome.passed = peak_memory_mb() <= weight_mb + 300;
  outcome.figures = {{"tokens_per_s", std::ranges::max(rounds.tokens)},
                     {"bandwidth_ratio", bar.value.value},
                     {"rss_mb", peak_memory_mb()},
                     {"read_gb_per_s", std::ranges::max(rounds.read) / 1e9},
                     {"weight_mb", weight_mb},
                     {"padding_mb", padding_mb},
                     {"dtype", info.dtype},
                     {"threads", options.threads}};
  outcome.hold({&bar, 1});
  return outcome;
}

}  // namespace

void add_decode_check(CheckList& checks) {
  auto options = std::make_shared<DecodeOptions>();
  CLI::App* command = checks.add("decode", "Decoding speed against the memory's read bandwidth",
                                 [options] { return run_decode(*options); });
  command->add_option("--model", options->model, "Model directory or GGUF file")->required();
  command->add_option("--dtype", options->dtype, "auto, f32, bf16, int8 or int4");
  command->add_option("--kernel", options->kernel,
                      "auto, avx2, avx2vnni, avx512, neon, neondot or neoni8mm");
  command->add_option("--threads", options->threads, "Compute threads")->check(CLI::Range(1, 256));
  command->add_option("--kv-dtype", options->kv_dtype, "Keys and values: f32 or bf16");
  command
      ->add_option("--rows", options->rows,
                   "Instead of single tokens: passes of so many rows, like 1,5,33")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  command->add_option("--context", options->context, "Tokens before the rows of --rows")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--tokens", options->tokens, "Tokens in each of three rounds")
      ->check(CLI::Range(1, 10000));
}

}  // namespace outrider
