// The wishes of a request for the size of an elastic model and for an answer's time, and the
// figures of both in its answer (docs/elastic.md).
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// A service-level objective: at most so many milliseconds, or at most this share of what the full
// model takes (ElastiLM, section 3.1).
struct Slo {
  std::optional<double> ttft_ms = {};     // to the first token, waiting included
  std::optional<double> tpot_ms = {};     // of each later token
  std::optional<double> time_ms = {};     // of the whole answer
  std::optional<double> energy_j = {};    // of the whole answer, by the device's power
  std::optional<double> ttft_share = {};  // of reading the prompt
  std::optional<double> tpot_share = {};
  // The least quality of a level that answers for its time (LevelProfile::quality); nothing: as the
  // target's level table says.
  std::optional<double> min_quality = {};
  bool strict = false;  // refused if no level can keep it; else the fastest answers
  // By time_ms the client gets what the draft expects of the answer, unverified, and then the
  // answer itself, by the level that would answer without an objective.
  bool unverified = false;

  bool asks() const {
    return ttft_ms || tpot_ms || time_ms || energy_j || ttft_share || tpot_share;
  }
  // A level, by its times.
  bool chooses_level() const { return asks() && !unverified; }
};

// The objectives, by the names that requests and flags give them.
struct SloField {
  const char* name;
  std::optional<double> Slo::*value;
  double most;  // each is above 0
};
inline constexpr double kMaxSloMs = 1e9;
inline constexpr double kMaxSloJoules = 1e9;
inline constexpr SloField kSloFields[] = {
    {"ttft_ms", &Slo::ttft_ms, kMaxSloMs}, {"tpot_ms", &Slo::tpot_ms, kMaxSloMs},
    {"time_ms", &Slo::time_ms, kMaxSloMs}, {"energy_j", &Slo::energy_j, kMaxSloJoules},
    {"ttft_share", &Slo::ttft_share, 1},   {"tpot_share", &Slo::tpot_share, 1},
    {"min_quality", &Slo::min_quality, 1}};

// nullptr for another name.
inline std::optional<double>* find_objective(Slo& slo, std::string_view name) {
  for (const SloField& field : kSloFields) {
    if (name == field.name) return &(slo.*field.value);
  }
  return nullptr;
}

// The objectives that may be named, for errors.
inline constexpr char kSloNames[] =
    "ttft_ms, tpot_ms or time_ms in milliseconds, energy_j in joules, ttft_share or tpot_share "
    "from 0 to 1, and beside "
    "them min_quality from 0 to 1";

// INVALID_ARGUMENT for an objective that is not above 0 or too large, for a first token that may
// come later than the whole answer, and for `unverified` that has no deadline, or has other
// objectives beside it.
Status check_slo(const Slo& slo);

// The waiting request that is due first is answered next: by its ttft_ms, or else its time_ms; one
// without either after a minute, so that none is passed by for longer.
inline constexpr Duration kDueAnyway = std::chrono::minutes(1);
Duration due_within(const Slo& slo);

struct LevelWish {
  // A name, or several (a level course); empty or "auto": by the slo, or the full model without
  // one.
  std::string level = {};
  Slo slo = {};
};

// Levels that answer one after the other: "100,12:60" is 100, and from the answer's token 12 on,
// counted from 0, it is 60. "60" is 60 alone.
struct LevelCourse {
  struct Part {
    std::int64_t from_token = 0;  // above 0, and above that of the part before
    std::string level = {};
  };
  static constexpr std::size_t kMaxParts = 64;

  std::string first;
  std::vector<Part> then = {};  // empty: no other follows
};

// INVALID_ARGUMENT for what has neither form.
Result<LevelCourse> parse_level_course(std::string_view text);

// Which level of an elastic target answered (docs/elastic.md), and what was expected of it.
struct LevelRecord {
  std::string name;       // that was chosen
  std::string course;     // all that answered, as --level takes it: "100,12:60"
  double divergence = 0;  // of the last, from the full model, and the share of its likeliest
  double agreement = 1;   // tokens, as the level table says
  double quality = 1;     // of the last, as LevelProfile says
  bool predicted_keeps_slo = true;  // what the request asked for
  double predicted_ttft_ms = 0;
  double predicted_tpot_ms = 0;
  std::optional<double> predicted_time_ms = {};  // nothing: no length was known
  std::optional<double> ttft_ms = {};            // achieved
  std::optional<double> time_ms = {};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("name", self.name);
    field("course", self.course);
    field("divergence", self.divergence);
    field("agreement", self.agreement);
    field("quality", self.quality);
    field("predicted_keeps_slo", self.predicted_keeps_slo);
    field("predicted_ttft_ms", self.predicted_ttft_ms);
    field("predicted_tpot_ms", self.predicted_tpot_ms);
    field("predicted_time_ms", self.predicted_time_ms);
    field("ttft_ms", self.ttft_ms);
    field("time_ms", self.time_ms);
  }
};

}  // namespace outrider
