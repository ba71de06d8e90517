// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/level_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace outrider {
namespace {

std::string ms(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g ms", value);
  return text;
}

PredictedTimes predict(const LevelProfile& level, const AnswerSize& size,
                       std::optional<std::int64_t> tokens) {
  PredictedTimes times{
      .ttft_ms = size.waited_ms + static_cast<double>(size.prompt_tokens) * level.prefill_ms,
      .tpot_ms = level.tpot_ms};
  if (tokens) {
    times.time_ms =
        times.ttft_ms + static_cast<double>(std::max<std::int64_t>(*tokens, 1) - 1) * times.tpot_ms;
  }
  return times;
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

Result<std::size_t> named_level(std::span<const LevelProfile> profile, const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < profile.size(); ++i) {
    if (profile[i].name == name) return i;
    known += (known.empty() ? "" : ", ") + profile[i].name;
  }
  return not_found("there is no level " + printable(name) + " here; there are " + known);
}

}  // namespace

Status check_slo(const Slo& slo) {
  for (const SloField& field : kSloFields) {
    const std::optional<double>& time = slo.*field.time;
    if (!time || (*time > 0 && std::isfinite(*time))) continue;
    return invalid_argument(std::string("slo.") + field.name + " is " + ms(*time) +
                            ". Remedy: a time above 0 in milliseconds");
  }
  if (slo.ttft_ms && slo.time_ms && *slo.ttft_ms > *slo.time_ms) {
    return invalid_argument("slo.ttft_ms is " + ms(*slo.ttft_ms) + " and slo.time_ms " +
                            ms(*slo.time_ms) +
                            ": the first token may not come after the whole answer. Remedy: leave "
                            "one of them out");
  }
  return {};
}

Result<LevelChoice> choose_level(std::span<const LevelProfile> profile, const LevelWish& wish,
                                 const AnswerSize& size, std::optional<std::int64_t> usual_length) {
  OUTRIDER_RETURN_IF_ERROR(check_slo(wish.slo));
  std::size_t first = 0, last = wish.slo.asks() ? profile.size() - 1 : 0;
  if (!wish.level.empty() && wish.level != "auto") {
    OUTRIDER_ASSIGN_OR_RETURN(first, named_level(profile, wish.level));
    last = first;
  }
  const bool is_bounded = size.max_tokens > 0;
  const std::optional<std::int64_t> tokens =
      is_bounded ? std::optional(size.max_tokens) : usual_length;
  if (wish.slo.time_ms && !tokens) {
    return invalid_argument("slo.time_ms is " + ms(*wish.slo.time_ms) +
                            ", but neither max_tokens nor an earlier answer says how long this one "
                            "may be. Remedy: max_tokens");
  }
  LevelChoice choice;
  for (choice.level = first;; ++choice.level) {
    choice.predicted = predict(profile[choice.level], size, tokens);
    choice.keeps = keeps(choice.predicted, wish.slo);
    if (choice.keeps || choice.level == last) break;
  }
  choice.length_assumed = wish.slo.time_ms && !is_bounded;
  if (choice.keeps || !wish.slo.strict) return choice;
  return invalid_argument("no level keeps the slo: " + profile[choice.level].name + " needs " +
                          times_text(choice.predicted) +
                          ". Remedy: more time, a shorter prompt or answer, or no strict slo");
}

std::optional<std::int64_t> usual_length(std::vector<std::int64_t> lengths) {
  if (lengths.empty()) return std::nullopt;
  const auto at = static_cast<std::ptrdiff_t>(0.9 * static_cast<double>(lengths.size() - 1) + 0.5);
  std::nth_element(lengths.begin(), lengths.begin() + at, lengths.end());
  return lengths[static_cast<std::size_t>(at)];
}

}  // namespace outrider
