// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/request/slo.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>

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
  const std::size_t comma = text.find(',');
  LevelCourse course{.first = std::string(text.substr(0, comma))};
  if (comma == std::string_view::npos) return course;
  const std::string_view rest = text.substr(comma + 1);
  const std::size_t colon = rest.find(':');
  if (colon != std::string_view::npos) {
    const char* const end = rest.data() + colon;
    const auto [at, error] = std::from_chars(rest.data(), end, course.from_token);
    course.then = rest.substr(colon + 1);
    if (error == std::errc() && at == end && course.from_token > 0 && !course.then.empty()) {
      return course;
    }
  }
  return invalid_argument("level " + printable(text) +
                          " is neither a name nor two with the token at which the second begins. "
                          "Remedy: 60, or 100,12:60");
}

}  // namespace outrider
