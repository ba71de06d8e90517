// SPDX-License-Identifier: Apache-2.0
#include "edge_client/doctor/diagnosis.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/enum_names.h"

namespace outrider {
namespace {

// Quantiles of Student's t, both sides together 5 %, by degrees of freedom from 1 on.
constexpr std::array kStudent = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262};
constexpr double kStudentBeyond = 2.262;  // too wide beyond the table, never too narrow

constexpr double kSettled = 1.1;  // the interval's ends, one over the other

double quantile_of(const std::vector<double>& ascending, double share) {
  const auto last = static_cast<double>(ascending.size() - 1);
  return ascending[static_cast<std::size_t>(std::lround(share * last))];
}

std::string shown(std::optional<double> value, const char* unit) {
  return value ? fmt::format("{:.4g} {}", *value, unit) : "not seen";
}

std::string shown(const std::optional<LinkSpeed>& speed) {
  if (!speed) return "not measured: the server is older than this";
  const auto one = [](const Rate& rate) {
    return fmt::format("{}{:.3g} Mbit/s", rate.least ? "at least " : "",
                       8e-6 * rate.bytes_per_second);
  };
  return one(speed->up) + " up, " + one(speed->down) + " down";
}

Json json_of(const std::optional<LinkSpeed>& speed) {
  if (!speed) return {};
  return {{"up_mbit_s", 8e-6 * speed->up.bytes_per_second},
          {"up_at_least", speed->up.least},
          {"down_mbit_s", 8e-6 * speed->down.bytes_per_second},
          {"down_at_least", speed->down.least}};
}

Json json_of(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::string name_of(const DraftingWay& way) {
  std::string name = way.who;
  if (!way.strategy) return name;
  if (!name.empty()) name += ' ';
  name += fmt::format("--strategy {}", name_of(*way.strategy));
  if (*way.strategy != Strategy::kAr) name += fmt::format(" --spec-draft-n-max {}", way.gamma);
  return name;
}

SpeedUp speed_up(std::span<const Trial> trials) {
  const auto count = static_cast<double>(trials.size());
  double plain = 0, candidate = 0, squares = 0;
  for (const Trial& trial : trials) {
    plain += trial.plain_ms / count;
    candidate += trial.candidate_ms / count;
  }
  for (const Trial& trial : trials) {
    const double moves = trial.plain_ms / plain - trial.candidate_ms / candidate;
    squares += moves * moves;
  }
  const std::size_t freedom = trials.size() - 1;
  const double student = freedom <= kStudent.size() ? kStudent[freedom - 1] : kStudentBeyond;
  const double half = student * std::sqrt(squares / (count - 1) / count);
  const double ratio = plain / candidate;
  return {.value = ratio, .interval = {ratio * std::exp(-half), ratio * std::exp(half)}};
}

bool is_settled(const SpeedUp& speed_up) {
  return speed_up.interval.high <= kSettled * speed_up.interval.low;
}

Advice advise(const DraftingWay& candidate, std::span<const Trial> trials) {
  const SpeedUp expected = speed_up(trials);
  Advice advice;
  advice.drafts = expected.interval.low > 1;
  advice.candidate = candidate;
  advice.expected = expected;
  return advice;
}

bool is_decided(const Advice& advice) {
  return advice.drafts || advice.expected.interval.high <= 1;
}

std::string verdict_of(const Advice& advice) {
  const bool here = advice.where == Where::kDevice;
  const SpeedUp& expected = advice.expected;
  const std::string place = here ? "On this device" : "On this link, with this pair";
  const std::string figures = fmt::format("{:.2f} x {} (95 %: {:.2f}-{:.2f})", expected.value,
                                          here ? "decoding without a draft" : "cloud decoding",
                                          expected.interval.low, expected.interval.high);
  const std::string best = name_of(advice.candidate);
  if (advice.drafts) return fmt::format("{}: use {}, expect {}.", place, best, figures);
  const std::string plain = name_of(advice.plain);
  if (!is_decided(advice)) {
    return fmt::format(
        "{}: not decided. The best way tried, {}, had {}: an interval around 1. Remedy: more "
        "prompts (-p) on a machine that does nothing else; until then {}.",
        place, best, figures, plain);
  }
  return fmt::format("{}: do not draft. The best way tried, {}, had {}. Remedy: {}.", place, best,
                     figures, plain);
}

Surroundings surroundings_of(std::span<const AnswerRecord> answers,
                             std::vector<double> round_trips_ms) {
  Surroundings found;
  if (!round_trips_ms.empty()) {
    std::ranges::sort(round_trips_ms);
    found.rtt_ms = quantile_of(round_trips_ms, 0.5);
    found.jitter_ms = quantile_of(round_trips_ms, 0.95) - *found.rtt_ms;
  }
  double steps = 0, step_ms = 0, passes = 0, pass_ms = 0, tokens = 0, drafted = 0, accepted = 0;
  double joules = 0, told_tokens = 0;
  for (const AnswerRecord& answer : answers) {
    steps += static_cast<double>(answer.stats.draft_steps);
    step_ms += to_ms(answer.stats.draft_compute);
    found.step_emulated = found.step_emulated || answer.draft_paced;
    for (const auto count : answer.stats.passes_by_rows) passes += static_cast<double>(count);
    pass_ms += to_ms(answer.stats.target_compute - answer.stats.first_verdict.compute);
    tokens += static_cast<double>(answer.stats.completion_tokens);
    drafted += static_cast<double>(answer.stats.num_draft_tokens);
    accepted += static_cast<double>(answer.stats.num_accepted_tokens);
    if (answer.joules) {
      joules += *answer.joules;
      told_tokens += static_cast<double>(answer.stats.completion_tokens);
    }
    if (!answer.traffic) continue;
    found.bytes_up += static_cast<double>(answer.traffic->bytes.framed_up);
    found.bytes_down += static_cast<double>(answer.traffic->bytes.framed_down);
  }
  if (steps > 0) found.step_ms = step_ms / steps;
  if (passes > 0) found.pass_ms = pass_ms / passes;
  if (told_tokens > 0) found.joules = joules / told_tokens;
  if (drafted > 0) found.acceptance = accepted / drafted;
  if (tokens > 0) {
    found.bytes_up /= tokens;
    found.bytes_down /= tokens;
  }
  return found;
}

std::string to_text(const Surroundings& found) {
  std::string text = fmt::format(
      "link        round trip {}, jitter {} (95th percentile less median); {:.0f} bytes up and "
      "{:.0f} down a token\n"
      "bandwidth   {}\n"
      "draft       {} a step (T_p{}); {} of its tokens stood\n"
      "target      {} a pass (T_q)\n",
      shown(found.rtt_ms, "ms"), shown(found.jitter_ms, "ms"), found.bytes_up, found.bytes_down,
      shown(found.speed), shown(found.step_ms, "ms"), found.step_emulated ? ", emulated" : "",
      found.acceptance ? fmt::format("{:.0f} %", 100 * *found.acceptance) : "none",
      shown(found.pass_ms, "ms"));
  if (found.joules) {
    text += fmt::format("energy      {:.3g} J a token: all that this device took meanwhile\n",
                        *found.joules);
  }
  return text;
}

Json to_json(const Surroundings& found) {
  return {
      {"rtt_ms", json_of(found.rtt_ms)},           {"jitter_ms", json_of(found.jitter_ms)},
      {"draft_step_ms", json_of(found.step_ms)},   {"draft_pace_emulated", found.step_emulated},
      {"target_pass_ms", json_of(found.pass_ms)},  {"acceptance_rate", json_of(found.acceptance)},
      {"bytes_per_token_up", found.bytes_up},      {"bytes_per_token_down", found.bytes_down},
      {"joules_per_token", json_of(found.joules)}, {"bandwidth", json_of(found.speed)}};
}

Json to_json(const Advice& advice) {
  const SpeedUp& expected = advice.expected;
  const std::optional<Strategy>& tried = advice.candidate.strategy;
  const Json strategy = tried ? Json(name_of(*tried)) : Json();
  return {{"draft", advice.drafts},
          {"decided", is_decided(advice)},
          {"strategy", advice.drafts ? strategy : Json(name_of(Strategy::kAr))},
          {"tried", name_of(advice.candidate)},
          {"tried_strategy", strategy},
          {"tried_gamma", advice.candidate.gamma},
          {"speed_up", expected.value},
          {"interval", {expected.interval.low, expected.interval.high}}};
}

}  // namespace outrider
