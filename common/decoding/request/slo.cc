// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/request/slo.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>
#include <utility>

namespace outrider {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

// It is about time_ms, and nothing else.
Status check_unverified(const Slo& slo) {
  if (!slo.time_ms) {
    return invalid_argument(
        "slo.unverified is what there is of an answer by slo.time_ms, which is missing. Remedy: "
        "time_ms");
  }
  std::string beside = slo.strict ? "strict" : "";
  for (const SloField& field : kSloFields) {
    if (field.value != &Slo::time_ms && slo.*field.value) beside = field.name;
  }
  if (beside.empty()) return {};
  return invalid_argument("slo.unverified beside slo." + beside +
                          ": an answer that is unverified by its deadline may be whole later. "
                          "Remedy: leave one of them out");
}

}  // namespace

Status check_slo(const Slo& slo) {
  for (const SloField& field : kSloFields) {
    const std::optional<double>& value = slo.*field.value;
    if (!value || (*value > 0 && *value <= field.most)) continue;
    return invalid_argument(std::string("slo.") + field.name + " is " + number(*value) +
                            ". Remedy: a number above 0, at most " + number(field.most));
  }
  if (slo.ttft_ms && slo.time_ms && *slo.ttft_ms > *slo.time_ms) {
    return invalid_argument("slo.ttft_ms is " + number(*slo.ttft_ms) + " and slo.time_ms " +
                            number(*slo.time_ms) +
                            ": the first token may not come after the whole answer. Remedy: leave "
                            "one of them out");
  }
  return slo.unverified ? check_unverified(slo) : Status();
}

Duration due_within(const Slo& slo) {
  const std::optional<double>& wanted = slo.ttft_ms ? slo.ttft_ms : slo.time_ms;
  return wanted ? std::min(from_ms(*wanted), kDueAnyway) : kDueAnyway;
}

Result<LevelCourse> parse_level_course(std::string_view text) {
  const std::size_t first_end = std::min(text.find(','), text.size());
  LevelCourse course{.first = std::string(text.substr(0, first_end))};
  std::string_view rest = text.substr(first_end);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(part.size());
    const std::size_t colon = std::min(part.find(':'), part.size());
    const char* const end = part.data() + colon;
    LevelCourse::Part next;
    const auto [at, error] = std::from_chars(part.data(), end, next.from_token);
    const std::int64_t before = course.then.empty() ? 0 : course.then.back().from_token;
    const bool is_number = error == std::errc() && at == end && next.from_token > before;
    if (!is_number || colon + 1 >= part.size() || course.then.size() >= LevelCourse::kMaxParts) {
      return invalid_argument("level " + printable(text) +
                              " is neither a name nor several, each behind the token at which it "
                              "begins, in order, at most " +
                              std::to_string(LevelCourse::kMaxParts) +
                              ". Remedy: 60, or 100,12:60");
    }
    next.level = part.substr(colon + 1);
    course.then.push_back(std::move(next));
  }
  return course;
}

}  // namespace outrider
