// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/levels/level_book.h"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace outrider {
namespace {

constexpr std::int32_t kProfiledPrompt = 64;  // rows
// Passes of one token each: so many at least, and as many as take so long. The first ones of a
// model that was just loaded take a quarter longer. What is streamed takes long, and much the same
// time.
constexpr int kMinTokens = 5, kMaxTokens = 40, kStreamedTokens = 2;
constexpr Duration kProfiledFor = std::chrono::milliseconds(100);
constexpr std::size_t kLengths = 200;  // of earlier answers
constexpr double kNewest = 0.5;        // weight of the last answer's times
// A prompt says what a token of it takes if reading it takes so many times as long as a pass.
constexpr double kLongPrompt = 3;
constexpr Position kMinContext = 16;  // which the passes of measure_level() fit in

struct PassTimes {
  double pass_ms = 0;
  double computing_ms = 0;  // of that
};

Result<PassTimes> timed_pass(Model& level, KvCache& cache, std::int32_t tokens, Clock& clock,
                             const DiskWaits& waits) {
  PassOutput out;
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (std::int32_t i = 0; i < tokens; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(slot, cache.slots().append(slot));
    rows.push_back({&cache, slot, i % level.info().vocab_size, i + 1 == tokens});
  }
  const Duration waited = waits ? waits() : Duration{0};
  const TimePoint begin = clock.now();
  OUTRIDER_RETURN_IF_ERROR(level.forward(rows, out));
  const double took = to_ms(clock.now() - begin);
  cache.slots().commit(slot);
  return PassTimes{took, took - (waits ? to_ms(waits() - waited) : 0.0)};
}

}  // namespace

// The first pass of each kind warms up, and has a stream read what this level needs.
Result<LevelProfile> measure_level(const std::string& name, Model& level, Clock& clock,
                                   const DiskWaits& waits) {
  if (level.info().max_positions < kMinContext) {
    return invalid_argument(
        "a context of " + std::to_string(level.info().max_positions) +
        " positions is too short to measure levels in. Remedy: -c or --max-model-len of at least " +
        std::to_string(kMinContext));
  }
  LevelProfile profile{.name = name};
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                            level.new_cache(2 * kProfiledPrompt + 1 + kMaxTokens));
  const auto pass = [&](std::int32_t tokens) {
    return timed_pass(level, *cache, tokens, clock, waits);
  };
  const auto prompt = static_cast<std::int32_t>(
      std::min<Position>(kProfiledPrompt, level.info().max_positions / 4));
  OUTRIDER_RETURN_IF_ERROR(pass(waits ? 1 : prompt).status());
  OUTRIDER_ASSIGN_OR_RETURN(const PassTimes prefill, pass(prompt));
  profile.prefill_ms = prefill.computing_ms / prompt;
  const std::size_t least = waits ? kStreamedTokens : kMinTokens;
  const Position room = level.info().max_positions - 2 * prompt - 1;
  const std::size_t most =
      waits ? least : static_cast<std::size_t>(std::min<Position>(kMaxTokens, room));
  const TimePoint until = clock.now() + kProfiledFor;
  std::vector<double> took;
  while (took.size() < least || (took.size() < most && clock.now() < until)) {
    OUTRIDER_ASSIGN_OR_RETURN(const PassTimes one, pass(1));
    took.push_back(one.pass_ms);
  }
  const auto middle = took.begin() + std::ssize(took) / 2;
  std::ranges::nth_element(took, middle);
  profile.tpot_ms = *middle;
  profile.pass_ms = *std::ranges::min_element(took);
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
