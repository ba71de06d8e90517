// What a request may ask of the size of an elastic model, and of an answer's time
// (docs/elastic.md).
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

// A service-level objective: at most so many milliseconds, each above 0.
struct Slo {
  std::optional<double> ttft_ms = {};  // to the first token, waiting included
  std::optional<double> tpot_ms = {};  // of each later token
  std::optional<double> time_ms = {};  // of the whole answer
  bool strict = false;                 // refused if no level can keep it; else the fastest answers

  bool asks() const { return ttft_ms || tpot_ms || time_ms; }
};

// The fields of times, by the names that requests and flags give them.
struct SloField {
  const char* name;
  std::optional<double> Slo::*time;
};
inline constexpr SloField kSloFields[] = {
    {"ttft_ms", &Slo::ttft_ms}, {"tpot_ms", &Slo::tpot_ms}, {"time_ms", &Slo::time_ms}};

// nullptr for another name.
inline std::optional<double>* find_time(Slo& slo, std::string_view name) {
  for (const SloField& field : kSloFields) {
    if (name == field.name) return &(slo.*field.time);
  }
  return nullptr;
}

struct LevelWish {
  std::string level = {};  // a name; empty or "auto": by the slo, or the full model without one
  Slo slo = {};
};

}  // namespace outrider
