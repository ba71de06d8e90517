// decode: how much of the memory's read bandwidth decoding turns into tokens. Padding of a weight
// layout is read too, but does not count.
//
// Each of three rounds first reads all weights in a plain loop and then decodes. The figures take
// the best round of each, because other load on the machine affects both differently.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/check.h"
#include "bench/checks/checks.h"
#include "bench/peers/pass_timer.h"
#include "bench/stats/statistics.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/kernels/aligned_buffer.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/format/config.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/model.h"

namespace outrider {
namespace {

// The reference: how fast a pool's threads read memory in a plain loop.

// The sum of all 64-bit words; so little work that memory is the limit.
std::uint64_t sum_words(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  const std::size_t words = bytes.size() / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
    sum += word;
  }
  return sum;
}
// Bytes per second of plainly reading all weights.

double read_rate(ThreadPool& pool, const std::vector<std::span<const std::byte>>& memory) {
  std::atomic<std::uint64_t> sum{0};
  std::size_t total = 0;
  const TimePoint start = SystemClock().now();
  for (const auto& bytes : memory) {
    total += bytes.size();
    pool.parallel_for(static_cast<std::int64_t>(bytes.size()), 4096,
                      [&](std::int64_t begin, std::int64_t end) {
                        sum += sum_words(bytes.subspan(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(end - begin)));
                      });
  }
  const double seconds = to_seconds(SystemClock().now() - start);
  // The sum must be used. Otherwise the compiler removes the loop.
  std::fprintf(stderr, "decode: read %.1f MB at %.2f GB/s (sum %016llx)\n",
               static_cast<double>(total) / 1e6, static_cast<double>(total) / seconds / 1e9,
               static_cast<unsigned long long>(sum.load()));
  return static_cast<double>(total) / seconds;
}

// Times of passes with many rows behind a long context, compared with their lower bound.

struct PassTimesOptions {
  int context = 0;  // tokens before the rows
  std::vector<int> rows;
  int threads = 2;
  int kv_bytes = 4;  // of an element of keys and values
  std::string kernel = "auto";
};

constexpr int kPassRounds = 5;
constexpr int kPrefillRows = 256;
constexpr double kMaxOverBound = 1.25;

// Products of f32 weights, multiply-adds per second.
double float_rate(ThreadPool& pool, const Kernels& kernels) {
  constexpr std::int64_t kSide = 1024, kRows = 64;
  AlignedBuffer<float> weights, x, y;  // a matrix that crosses cache lines takes twice the time
  weights.grow(kSide * kSide);
  x.grow(kSide * kRows);
  y.grow(kSide * kRows);
  std::fill_n(weights.data(), kSide * kSide, 0.5f);
  std::fill_n(x.data(), kSide * kRows, 0.25f);
  const WeightMatrix matrix{.data = weights.data(), .outputs = kSide, .inputs = kSide};
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kPassRounds; ++round) {
    const TimePoint start = SystemClock().now();
    pool.parallel_for(kSide, 16, [&](std::int64_t begin, std::int64_t end) {
      kernels.matmul(matrix, {kRows, kSide, x.data(), nullptr}, {begin, end},
                     {y.data(), kSide, nullptr, false});
    });
    best = std::min(best, to_seconds(SystemClock().now() - start));
  }
  return static_cast<double>(kSide * kSide * kRows) / best;
}

// The lower bound of a pass, in seconds.
struct Bound {
  double weights = 0, keys_and_values = 0, arithmetic = 0;
  double longest() const { return std::max({weights, keys_and_values, arithmetic}); }
};

struct Rates {
  double read = 0;      // bytes per second
  double products = 0;  // multiply-adds per second of the model's own products
  double floats = 0;    // of f32 products
};

Bound bound_of(const Model& model, const ModelConfig& config, const PassTimesOptions& options,
               const Rates& rates, int rows) {
  const auto layers = static_cast<double>(config.num_layers);
  const double context = options.context + rows / 2.0;
  const auto heads = static_cast<double>(config.q_size());
  const auto head = static_cast<double>(config.vocab_size) * config.hidden_size;
  const double parameters =
      static_cast<double>(model.info().num_parameters) - (config.tied_embeddings ? 0.0 : head);
  return {.weights = static_cast<double>(model.info().weight_bytes) / rates.read,
          .keys_and_values = 2 * layers * context * static_cast<double>(config.kv_size()) *
                             options.kv_bytes / rates.read,
          .arithmetic =
              rows * (parameters / rates.products + 2 * layers * context * heads / rates.floats)};
}

// The ratio of the best pass to the lower bound.
Estimate over_bound(const std::vector<double>& seconds, const Bound& bound) {
  return *bootstrap(seconds.size(),
                    [&](std::span<const std::size_t> indices) -> std::optional<double> {
                      double best = std::numeric_limits<double>::infinity();
                      for (const std::size_t round : indices) best = std::min(best, seconds[round]);
                      return best / bound.longest();
                    });
}
// The bar for each number of rows: a pass takes at most 1.25 times the longest of reading the
// weights once, reading keys and values once, and the arithmetic at the measured rate of matrix
// products (the model's own for its weights, f32 for attention).

Result<CheckOutcome> measure_passes(Model& model, const ModelConfig& config,
                                    const PassTimesOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget target, find_vector_target(options.kernel));
  const int most = std::max(kPrefillRows, std::ranges::max(options.rows));
  OUTRIDER_ASSIGN_OR_RETURN(PassTimer passes, PassTimer::make(model, options.context + most));
  ThreadPool pool(options.threads);
  Rates rates{.read = 0, .products = 0, .floats = float_rate(pool, kernels_for(target))};
  // The rate of the model's products: a prefill without logits, so without the output matrix.
  const auto head = static_cast<double>(config.vocab_size) * config.hidden_size;
  const double body =
      static_cast<double>(model.info().num_parameters) - (config.tied_embeddings ? 1 : 2) * head;
  double prefill = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {
    OUTRIDER_ASSIGN_OR_RETURN(const double seconds, passes.time_prefill(kPrefillRows));
    prefill = std::min(prefill, seconds);
  }
  rates.products = kPrefillRows * body / prefill;
  const auto memory = cpu_weight_memory(model);
  std::vector<std::vector<double>> times(options.rows.size());  // by rows and round
  for (int round = 0; round < kPassRounds; ++round) {
    rates.read = std::max(rates.read, read_rate(pool, memory));
    for (std::size_t i = 0; i < options.rows.size(); ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(const double seconds,
                                passes.time_pass(options.rows[i], options.context));
      times[i].push_back(seconds);
    }
  }
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"context", options.context},
                     {"dtype", model.info().dtype},
                     {"products_gmac_per_s", rates.products / 1e9},
                     {"f32_gmac_per_s", rates.floats / 1e9},
                     {"read_gb_per_s", rates.read / 1e9},
                     {"prefill_ms", prefill * 1e3},
                     {"passes", Json::array()}};
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < options.rows.size(); ++i) {
    const Bound bound = bound_of(model, config, options, rates, options.rows[i]);
    outcome.figures["passes"].push_back({{"rows", options.rows[i]},
                                         {"ms", std::ranges::min(times[i]) * 1e3},
                                         {"weights_ms", bound.weights * 1e3},
                                         {"kv_ms", bound.keys_and_values * 1e3},
                                         {"arithmetic_ms", bound.arithmetic * 1e3}});
    bars.push_back({"pass_over_bound_" + std::to_string(options.rows[i]),
                    over_bound(times[i], bound), kMaxOverBound, Bar::Side::kAtMost});
  }
  outcome.hold(bars);
  return outcome;
}

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

// From the best round of each, for weights of this many bytes.
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

// Types with few bits need more work per byte read.
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
                   "Instead of single tokens: passes of N rows, such as 1,5,33")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  command->add_option("--context", options->context, "Tokens before the rows of --rows")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--tokens", options->tokens, "Tokens in each of three rounds")
      ->check(CLI::Range(1, 10000));
}

}  // namespace outrider
