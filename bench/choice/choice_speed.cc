// SPDX-License-Identifier: Apache-2.0
#include "bench/choice/choice_speed.h"

#include <array>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>

#include "bench/choice/plain_choice.h"
#include "bench/choice/row_shapes.h"
#include "common/base/clock.h"
#include "common/engine/model/loader/loader.h"
#include "common/engine/model/model.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {
namespace {

constexpr std::array<std::size_t, 5> kVocabularies = {3'072, 32'000, 49'152, 128'256, 151'936};
constexpr std::array<SamplingParams, 6> kTimedSettings = {{
    {.temperature = 0.7f},
    {.temperature = 1.0f},
    {.temperature = 0.7f, .top_k = 40, .top_p = 0.95f},
    {.temperature = 1.0f, .top_k = 40, .top_p = 0.95f},
    {.temperature = 0.7f, .top_p = 0.95f},
    {.temperature = 1.0f, .top_p = 0.95f},
}};
constexpr std::uint64_t kSeed = 7;
constexpr std::size_t kDrawnRows = 8;
constexpr int kModelRows = 32;
constexpr double kMaxMicroseconds = 100;  // peaked rows of the largest vocabulary, T 0.7

using Rows = std::vector<std::vector<float>>;

// Microseconds a row, a sample each turn.
struct ChoiceTimes {
  std::vector<double> plain, lazy;
};

ChoiceTimes time_choices(const Rows& rows, const SamplingParams& params, int turns) {
  ChoiceTimes times;
  std::int64_t sum = 0;  // the compiler must not leave a choice out
  const auto time = [&](auto choose_token, Position first) {
    const TimePoint start = SystemClock().now();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sum += choose_token(rows[i], params, kSeed, first + static_cast<Position>(i));
    }
    return to_seconds(SystemClock().now() - start) * 1e6 / static_cast<double>(rows.size());
  };
  for (int turn = -1; turn < turns; ++turn) {
    const Position first = static_cast<Position>(turn + 1) * 1000;
    const double plain = time(choose_plainly, first);
    const double lazy = time(choose, first);
    if (turn < 0) continue;  // memory is warm from here on
    times.plain.push_back(plain);
    times.lazy.push_back(lazy);
  }
  return sum >= 0 ? times : ChoiceTimes{};
}

void measure(const std::string& name, const Rows& rows, const ChoiceSpeedOptions& options,
             ChoiceSpeed& speed) {
  const std::size_t vocab = rows[0].size();
  for (const SamplingParams& params : kTimedSettings) {
    const ChoiceTimes times = time_choices(rows, params, options.turns);
    const auto plain = median(times.plain);
    const auto lazy = median(times.lazy);
    const auto faster = ratio_of_medians(times.lazy, times.plain);
    if (!plain || !lazy || !faster) continue;
    std::fprintf(stderr,
                 "choice: %-6s %6zu tokens  T %.1f top_k %-2d top_p %-4g  plain %8.1f us  "
                 "now %8.1f us  %.2f times faster\n",
                 name.c_str(), vocab, params.temperature, params.top_k, params.top_p, plain->value,
                 lazy->value, faster->value);
    speed.settings.push_back({{"rows", name},
                              {"vocabulary", vocab},
                              {"temperature", params.temperature == 1 ? 1.0 : 0.7},
                              {"top_k", params.top_k},
                              {"top_p", params.top_p < 1 ? 0.95 : 1.0},
                              {"plain_us", to_json(*plain)},
                              {"now_us", to_json(*lazy)},
                              {"times_faster", to_json(*faster)}});
    const bool unfiltered = params.top_k == 0 && params.top_p == 1;
    const std::string setting = name + ", " + std::to_string(vocab) + " tokens, T " +
                                (params.temperature == 1 ? "1" : "0.7");
    if (name == "peaked" && unfiltered && vocab == kVocabularies.back() && params.temperature < 1) {
      speed.bars.push_back({"us a row: " + setting, *lazy, kMaxMicroseconds, Bar::Side::kAtMost});
    }
    if (name == "flat" && unfiltered) {
      speed.bars.push_back({"times faster: " + setting, *faster, 1, Bar::Side::kAtLeast});
    }
  }
}

// The rows of a text that the model writes from token 1 on, at temperature 0.7.
Result<Rows> rows_of_model(const std::string& directory) {
  LoadOptions load;
  load.directory = directory;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, load_model(load));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache, model->new_cache(kModelRows));
  Rows rows;
  PassOutput pass;
  TokenId token = 1;
  for (int i = 0; i < kModelRows; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, cache->slots().append(kRootSlot));
    const std::array<Row, 1> row = {{{cache.get(), slot, token}}};
    OUTRIDER_RETURN_IF_ERROR(model->forward(row, pass));
    cache->slots().commit(slot);
    rows.emplace_back(pass.logits.begin(), pass.logits.end());
    token = choose(rows.back(), {.temperature = 0.7f}, kSeed, i);
  }
  return rows;
}

}  // namespace

Result<ChoiceSpeed> measure_choice_speed(const ChoiceSpeedOptions& options) {
  ChoiceSpeed speed;
  for (const std::size_t vocab : kVocabularies) {
    for (const RowShape shape : {RowShape::kPeaked, RowShape::kUnsure, RowShape::kFlat}) {
      Rows rows(kDrawnRows);
      for (std::size_t i = 0; i < rows.size(); ++i) draw_row(shape, vocab, i, rows[i]);
      measure(std::string(to_string(shape)), rows, options, speed);
    }
  }
  if (!options.model.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const Rows rows, rows_of_model(options.model));
    measure("model", rows, options, speed);
  }
  return speed;
}

}  // namespace outrider
