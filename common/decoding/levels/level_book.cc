// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/levels/level_book.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "common/decoding/costs/row_curve.h"

namespace outrider {
namespace {

constexpr std::int32_t kProfiledPrompt = 64;  // rows
// Passes of each level: so many at least, and as many as take so long. The first ones of a model
// that was just loaded take a quarter longer. What is streamed takes long, and much the same time.
constexpr std::size_t kMinTokens = 5, kMaxTokens = 40, kStreamedTokens = 2, kMaxPrompts = 3;
constexpr Duration kProfiledFor = std::chrono::milliseconds(100);
constexpr std::size_t kLengths = 200;  // of earlier answers
constexpr double kNewest = 0.5;        // weight of the last answer's times
// A prompt says what a token of it takes if reading it takes so many times as long as a pass.
constexpr double kLongPrompt = 3;
constexpr Position kMinContext = 16;  // which the passes of measure_levels() fit in

struct PassTimes {
  double pass_ms = 0;
  double computing_ms = 0;  // of that
};

// A level, and what its passes took.
struct Measured {
  Model& model;
  std::unique_ptr<KvCache> cache;
  std::vector<double> prompts = {}, tokens = {};  // ms
};

Result<PassTimes> timed_pass(Measured& level, std::int32_t tokens, Clock& clock,
                             const DiskWaits& waits) {
  PassOutput out;
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (std::int32_t i = 0; i < tokens; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(slot, level.cache->slots().append(slot));
    rows.push_back({level.cache.get(), slot, i % level.model.info().vocab_size, i + 1 == tokens});
  }
  const Duration waited = waits ? waits() : Duration{0};
  const TimePoint begin = clock.now();
  OUTRIDER_RETURN_IF_ERROR(level.model.forward(rows, out));
  const double took = to_ms(clock.now() - begin);
  level.cache->slots().commit(slot);
  return PassTimes{took, took - (waits ? to_ms(waits() - waited) : 0.0)};
}

double middle(std::vector<double> times) {
  const auto at = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, at);
  return *at;
}

// Where a smaller level seems to take longer than a larger one, they get their mean.
void let_none_rise(std::span<LevelProfile> profile, double LevelProfile::*time) {
  std::vector<RowTime> means;  // by size, the smallest level first
  for (std::size_t i = profile.size(); i-- > 0;) {
    means.push_back({static_cast<double>(profile.size() - i), profile[i].*time, 1});
  }
  const RowCurve curve(means);
  for (const RowCurve::Pool& pool : curve.pools()) {
    for (std::size_t i = 0; i < profile.size(); ++i) {
      const auto size = static_cast<double>(profile.size() - i);
      if (pool.first_rows <= size && size <= pool.last_rows) profile[i].*time = pool.time;
    }
  }
}

// The rows of the prompt that is measured.
std::int32_t prompt_rows(const Model& level) {
  return static_cast<std::int32_t>(
      std::min<Position>(kProfiledPrompt, level.info().max_positions / 4));
}

// Passes of all levels in turn. The first one of each warms up, and has a stream read what its
// level needs.
Status measure(std::span<Measured> levels, Clock& clock, const DiskWaits& waits) {
  const Position context = levels.front().model.info().max_positions;
  const std::int32_t prompt = prompt_rows(levels.front().model);
  for (Measured& level : levels) {
    OUTRIDER_RETURN_IF_ERROR(timed_pass(level, waits ? 1 : prompt, clock, waits).status());
  }
  const auto repeat = [&](std::int32_t rows, std::size_t least, std::size_t most,
                          const auto& keep) -> Status {
    const TimePoint until = clock.now() + kProfiledFor * std::ssize(levels);
    for (std::size_t round = 0; round < least || (round < most && clock.now() < until); ++round) {
      for (Measured& level : levels) {
        OUTRIDER_ASSIGN_OR_RETURN(const PassTimes took, timed_pass(level, rows, clock, waits));
        keep(level, took);
      }
    }
    return {};
  };
  // Prompts of that length beside the first one and the least tokens.
  const Position room = (context - static_cast<Position>(kMinTokens) - 1) / prompt - 1;
  OUTRIDER_RETURN_IF_ERROR(repeat(
      prompt, 1, waits ? 1 : static_cast<std::size_t>(std::clamp<Position>(room, 1, kMaxPrompts)),
      [](Measured& level, const PassTimes& took) { level.prompts.push_back(took.computing_ms); }));
  const auto left =
      static_cast<std::size_t>(context - prompt * (1 + std::ssize(levels.front().prompts)) - 1);
  return repeat(
      1, waits ? kStreamedTokens : kMinTokens, waits ? kStreamedTokens : std::min(kMaxTokens, left),
      [](Measured& level, const PassTimes& took) { level.tokens.push_back(took.pass_ms); });
}

}  // namespace

Result<std::vector<LevelProfile>> measure_levels(std::span<const NamedLevel> levels, Clock& clock,
                                                 const DiskWaits& waits) {
  std::vector<Measured> measured;
  for (const NamedLevel& level : levels) {
    const Position context = level.model->info().max_positions;
    if (context < kMinContext) {
      return invalid_argument("a context of " + std::to_string(context) +
                              " positions is too short to measure levels in. Remedy: -c or "
                              "--max-model-len of at least " +
                              std::to_string(kMinContext));
    }
    const std::size_t slots = (kMaxPrompts + 1) * kProfiledPrompt + kMaxTokens + 1;
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                              level.model->new_cache(static_cast<std::int32_t>(
                                  std::min<Position>(context, static_cast<Position>(slots)))));
    measured.push_back({.model = *level.model, .cache = std::move(cache)});
  }
  // A stream reads ahead for the level that it has just read.
  const std::size_t at_once = waits ? 1 : measured.size();
  std::vector<LevelProfile> profile;
  for (std::size_t i = 0; i < measured.size(); i += at_once) {
    OUTRIDER_RETURN_IF_ERROR(measure(std::span(measured).subspan(i, at_once), clock, waits));
  }
  for (std::size_t i = 0; i < measured.size(); ++i) {
    profile.push_back({.name = levels[i].name,
                       .prefill_ms = middle(measured[i].prompts) / prompt_rows(measured[i].model),
                       .tpot_ms = middle(measured[i].tokens),
                       .pass_ms = *std::ranges::min_element(measured[i].tokens)});
  }
  for (double LevelProfile::*time :
       {&LevelProfile::prefill_ms, &LevelProfile::tpot_ms, &LevelProfile::pass_ms}) {
    let_none_rise(profile, time);
  }
  return profile;
}

LevelBook::LevelBook(const ElasticTable& table, std::vector<ElasticLevel> levels,
                     std::vector<LevelProfile> profile)
    : levels_(std::move(levels)),
      least_quality_(least_quality(table)),
      task_(table.task),
      profile_(std::move(profile)) {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    profile_[i].quality = level_quality(table, levels_[i]);
  }
}

std::vector<LevelProfile> LevelBook::profile() const {
  const MutexLock lock(mu_);
  return profile_;
}

std::string LevelBook::about() const {
  std::string text, named_only;
  for (const LevelProfile& level : profile()) {
    char times[96];
    std::snprintf(times, sizeof(times), "%s%s (%.3g + %.3g ms per token)", text.empty() ? "" : ", ",
                  level.name.c_str(), level.prefill_ms, level.tpot_ms);
    text += times;
    if (level.quality < least_quality_) {
      named_only += (named_only.empty() ? "" : ", ") + level.name;
    }
  }
  if (named_only.empty()) return text;
  char least[16];
  std::snprintf(least, sizeof(least), "%.3g", least_quality_);
  return text + "; " + named_only + " only by name or slo.min_quality, as their quality is below " +
         least + (task_.empty() ? " (no task was measured)" : " in " + task_);
}

Result<LevelChoice> LevelBook::choose(const LevelWish& wish, const AnswerSize& size) const {
  const MutexLock lock(mu_);
  return choose_level(profile_, wish, size, usual_length({lengths_.begin(), lengths_.end()}),
                      least_quality_);
}

void LevelBook::note(const LevelChoice& choice, std::span<const LevelSwitch> switches,
                     const AnsweredTokens& tokens, LevelRecord& record) {
  const ElasticLevel& level = levels_[choice.level];
  const std::size_t last_level = switches.empty() ? choice.level : switches.back().level;
  const ElasticLevel& last = levels_[last_level];
  record.name = record.course = level.name;
  for (const LevelSwitch& next : switches) {
    record.course += "," + std::to_string(next.from_token) + ":" + levels_[next.level].name;
  }
  record.divergence = last.divergence;
  record.agreement = last.agreement;
  record.predicted_keeps_slo = choice.keeps;
  record.predicted_ttft_ms = choice.predicted.ttft_ms;
  record.predicted_tpot_ms = choice.predicted.tpot_ms;
  record.predicted_time_ms = choice.predicted.time_ms;
  const MutexLock lock(mu_);
  record.quality = profile_[last_level].quality;
  lengths_.push_back(tokens.said);
  if (lengths_.size() > kLengths) lengths_.pop_front();
  if (!switches.empty() || !record.ttft_ms) return;  // the times are no single level's
  LevelProfile& times = profile_[choice.level];
  const auto read = static_cast<double>(tokens.read);
  if (read * times.prefill_ms > kLongPrompt * times.pass_ms) {
    times.prefill_ms += kNewest * (*record.ttft_ms / read - times.prefill_ms);
  }
  if (!record.time_ms || tokens.said < 2) return;
  const double took = (*record.time_ms - *record.ttft_ms) / static_cast<double>(tokens.said - 1);
  if (took > 0) times.tpot_ms += kNewest * (took - times.tpot_ms);
}

}  // namespace outrider
