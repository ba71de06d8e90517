// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/speed/pass_times.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include "bench/checks/speed/read_rate.h"
#include "bench/harness/statistics.h"
#include "bench/peers/pass_runner.h"
#include "common/base/clock.h"
#include "common/base/thread_pool.h"
#include "common/model/cpu/cpu_model.h"
#include "common/model/cpu/kernels/aligned_buffer.h"
#include "common/model/cpu/kernels/kernels.h"

namespace outrider {
namespace {

constexpr int kRounds = 5;
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
  for (int round = 0; round < kRounds; ++round) {
    const TimePoint start = SystemClock().now();
    pool.parallel_for(kSide, 16, [&](std::int64_t begin, std::int64_t end) {
      kernels.matmul(matrix, {kRows, kSide, x.data(), nullptr}, {begin, end},
                     {y.data(), kSide, nullptr, false});
    });
    best = std::min(best, to_seconds(SystemClock().now() - start));
  }
  return static_cast<double>(kSide * kSide * kRows) / best;
}

// What a pass cannot do without, in seconds.
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

// How many times the bound the best of some passes took.
Estimate over_bound(const std::vector<double>& seconds, const Bound& bound) {
  return *bootstrap(seconds.size(),
                    [&](std::span<const std::size_t> indices) -> std::optional<double> {
                      double best = std::numeric_limits<double>::infinity();
                      for (const std::size_t round : indices) best = std::min(best, seconds[round]);
                      return best / bound.longest();
                    });
}

}  // namespace

Result<CheckOutcome> measure_passes(Model& model, const ModelConfig& config,
                                    const PassTimesOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget target, find_vector_target(options.kernel));
  const int most = std::max(kPrefillRows, std::ranges::max(options.rows));
  OUTRIDER_ASSIGN_OR_RETURN(PassRunner passes, PassRunner::make(model, options.context + most));
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
  for (int round = 0; round < kRounds; ++round) {
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

}  // namespace outrider
