// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/levels/level_choice.h"

#include <algorithm>
#include <cstdio>

namespace outrider {
namespace {

constexpr double kMinTpotMs = 1e-6;

std::string ms(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g ms", value);
  return text;
}

// The time of the pass that reads this number of tokens.
double reading_ms(const LevelProfile& level, std::int64_t tokens) {
  return std::max(static_cast<double>(tokens) * level.prefill_ms, level.pass_ms);
}

PredictedTimes predict(const LevelProfile& level, const AnswerSize& size,
                       std::optional<std::int64_t> tokens) {
  PredictedTimes times{.ttft_ms = size.waited_ms + reading_ms(level, size.prompt_tokens),
                       .tpot_ms = level.tpot_ms};
  if (tokens) {
    times.time_ms =
        times.ttft_ms + static_cast<double>(std::max<std::int64_t>(*tokens, 1) - 1) * times.tpot_ms;
  }
  return times;
}

bool keeps_shares(const LevelProfile& level, const LevelProfile& full, std::int64_t prompt_tokens,
                  const Slo& slo) {
  const auto keeps = [](double time, std::optional<double> share, double whole) {
    return !share || time <= *share * whole;
  };
  return keeps(reading_ms(level, prompt_tokens), slo.ttft_share, reading_ms(full, prompt_tokens)) &&
         keeps(level.tpot_ms, slo.tpot_share, full.tpot_ms);
}

bool keeps(const PredictedTimes& times, const Slo& slo) {
  return times.ttft_ms <= slo.ttft_ms.value_or(times.ttft_ms) &&
         times.tpot_ms <= slo.tpot_ms.value_or(times.tpot_ms) &&
         times.time_ms.value_or(0) <= slo.time_ms.value_or(times.time_ms.value_or(0));
}

std::string times_text(const PredictedTimes& times) {
  return "first token after " + ms(times.ttft_ms) + ", then " + ms(times.tpot_ms) + " each" +
         (times.time_ms ? ", " + ms(*times.time_ms) + " in all" : "");
}

// The smallest level of this quality; the full one where there is none.
std::size_t last_good(std::span<const LevelProfile> profile, double least_quality) {
  std::size_t last = profile.size() - 1;
  while (last > 0 && profile[last].quality < least_quality) --last;
  return last;
}

// The smaller levels that could have been faster.
std::string below_text(std::span<const LevelProfile> profile, const LevelChoice& choice) {
  std::string names;
  for (const LevelProfile& level : profile.subspan(choice.level + 1)) {
    if (level.quality < choice.least_quality) names += (names.empty() ? "" : ", ") + level.name;
  }
  char least[32];
  std::snprintf(least, sizeof(least), "%.3g", choice.least_quality);
  if (names.empty()) return names;
  return "; below a quality of " + std::string(least) + " (slo.min_quality) are " + names;
}

Result<std::size_t> named_level(std::span<const LevelProfile> profile, const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < profile.size(); ++i) {
    if (profile[i].name == name) return i;
    known += (known.empty() ? "" : ", ") + profile[i].name;
  }
  return not_found("there is no level " + printable(name) + " here; there are " + known);
}

Status energy_as_time(const AnswerSize& size, Slo& slo) {
  if (!slo.energy_j) return {};
  if (size.watts <= 0) {
    return invalid_argument(
        "slo.energy_j: what this device takes of power is not known. Remedy: time_ms, or start "
        "the program with --power-file");
  }
  const double limit = 1e3 * *slo.energy_j / size.watts + size.waited_ms;
  slo.time_ms = std::min(slo.time_ms.value_or(limit), limit);
  return {};
}

}  // namespace

Result<LevelChoice> choose_level(std::span<const LevelProfile> profile, const LevelWish& wish,
                                 const AnswerSize& size, std::optional<std::int64_t> usual_length,
                                 double least_quality) {
  OUTRIDER_RETURN_IF_ERROR(check_slo(wish.slo));
  Slo slo = wish.slo.chooses_level() ? wish.slo : Slo();
  OUTRIDER_RETURN_IF_ERROR(energy_as_time(size, slo));
  OUTRIDER_ASSIGN_OR_RETURN(const LevelCourse course, parse_level_course(wish.level));
  LevelChoice choice;
  choice.least_quality = slo.min_quality.value_or(least_quality);
  const auto is_good = [&](const LevelProfile& one) { return one.quality >= choice.least_quality; };
  std::size_t first = 0, last = slo.asks() ? last_good(profile, choice.least_quality) : 0;
  const bool is_named = !course.first.empty() && course.first != "auto";
  if (is_named) {
    OUTRIDER_ASSIGN_OR_RETURN(first, named_level(profile, course.first));
    last = first;
  }
  for (const LevelCourse::Part& part : course.then) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::size_t level, named_level(profile, part.level));
    choice.then.push_back({.from_token = part.from_token, .level = level});
  }
  const bool is_bounded = size.max_tokens > 0;
  const std::optional<std::int64_t> tokens =
      is_bounded ? std::optional(size.max_tokens) : usual_length;
  if (slo.time_ms && !tokens) {
    return invalid_argument((slo.energy_j ? "slo.energy_j allows " : "slo.time_ms is ") +
                            ms(*slo.time_ms) +
                            ", but neither max_tokens nor an earlier answer says how long this one "
                            "may be. Remedy: max_tokens");
  }
  for (choice.level = first;; ++choice.level) {
    if (choice.level != first && choice.level != last && !is_good(profile[choice.level])) continue;
    choice.predicted = predict(profile[choice.level], size, tokens);
    choice.keeps = keeps(choice.predicted, slo) &&
                   keeps_shares(profile[choice.level], profile.front(), size.prompt_tokens, slo);
    if (choice.keeps || choice.level == last) break;
  }
  choice.time_limit_ms = slo.time_ms;
  choice.length_assumed = slo.time_ms && !is_bounded;
  choice.expected_tokens = tokens.value_or(0);
  choice.may_switch = slo.time_ms && choice.level < last && choice.then.empty();
  choice.leaves_loops = slo.asks() && !is_named && choice.then.empty();
  if (choice.keeps || !slo.strict) return choice;
  return invalid_argument("no level keeps the slo: " + profile[choice.level].name + " needs " +
                          times_text(choice.predicted) + below_text(profile, choice) +
                          ". Remedy: more time, a shorter prompt or answer, or no strict slo");
}

std::optional<std::size_t> level_to_go_on_with(std::span<const LevelProfile> profile,
                                               std::size_t level, const AnswerProgress& progress) {
  const auto left = static_cast<double>(progress.tokens_left);
  double soonest = left * progress.tpot_ms;
  if (progress.tokens_left <= 0 || progress.time_left_ms <= 0) return std::nullopt;
  if (soonest <= progress.time_left_ms) return std::nullopt;
  const double slower = progress.tpot_ms / std::max(profile[level].tpot_ms, kMinTpotMs);
  std::optional<std::size_t> best;
  for (std::size_t i = level + 1; i < profile.size(); ++i) {
    if (profile[i].quality < progress.least_quality) continue;
    const double needed =
        slower * (reading_ms(profile[i], progress.text_tokens) + left * profile[i].tpot_ms);
    if (needed <= progress.time_left_ms) return i;
    if (needed >= soonest) continue;
    soonest = needed;
    best = i;
  }
  return best;
}

std::optional<std::size_t> next_larger_level(std::span<const LevelProfile> profile,
                                             std::size_t level, double least_quality) {
  if (level == 0) return std::nullopt;
  while (--level > 0 && profile[level].quality < least_quality) continue;
  return level;
}

std::optional<std::int64_t> usual_length(std::vector<std::int64_t> lengths) {
  if (lengths.empty()) return std::nullopt;
  const auto at = static_cast<std::ptrdiff_t>(0.9 * static_cast<double>(lengths.size() - 1) + 0.5);
  std::nth_element(lengths.begin(), lengths.begin() + at, lengths.end());
  return lengths[static_cast<std::size_t>(at)];
}

}  // namespace outrider
