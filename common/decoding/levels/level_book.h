// The times of answers by an elastic model's levels on this machine: measured when the model is
// loaded, and learnt from the answers since. By this the level of the next answer is chosen.
//
//   (choose  note)*
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/decoding/levels/level_choice.h"
#include "common/decoding/request/slo.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/model.h"

namespace outrider {

// How long passes have waited for a disk so far; empty: the model is in memory.
using DiskWaits = std::function<Duration()>;

// A level and its model, which outlives the measurement.
struct NamedLevel {
  std::string name;
  Model* model;
};

// Measures levels, full first: a short prompt, and some tokens. Their passes take turns, so that
// what else the machine does slows them alike, and no level is found to take longer than a larger
// one (isotonic regression). The time that a pass waits for a disk is the same for a prompt of any
// length. INVALID_ARGUMENT for a context that is too short.
Result<std::vector<LevelProfile>> measure_levels(std::span<const NamedLevel> levels, Clock& clock,
                                                 const DiskWaits& waits = {});

struct AnsweredTokens {
  std::int64_t read = 0;  // of the prompt, without what was cached; 0: not known how long it took
  std::int64_t said = 0;
};

class LevelBook final {
 public:
  // profile: of these levels of the table, full first; their qualities are the table's.
  LevelBook(const ElasticTable& table, std::vector<ElasticLevel> levels,
            std::vector<LevelProfile> profile);

  const std::vector<ElasticLevel>& levels() const { return levels_; }
  std::vector<LevelProfile> profile() const;
  // For the user: the levels with their times, and which of them no deadline chooses.
  std::string about() const;

  // Errors: those of choose_level().
  Result<LevelChoice> choose(const LevelWish& wish, const AnswerSize& size) const;

  // An answer has ended. `record`, which has the times that it took, gets the rest; what it took is
  // what the next of that level is expected to take.
  void note(const LevelChoice& choice, std::span<const LevelSwitch> switches,
            const AnsweredTokens& tokens, LevelRecord& record);

 private:
  const std::vector<ElasticLevel> levels_;
  const double least_quality_;
  const std::string task_;  // of the table
  mutable Mutex mu_;
  std::vector<LevelProfile> profile_ OUTRIDER_GUARDED_BY(mu_);
  std::deque<std::int64_t> lengths_ OUTRIDER_GUARDED_BY(mu_);  // of the last answers
};

}  // namespace outrider
