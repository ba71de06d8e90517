// The levels of this device's target, each with an engine of its own over the same weights: answers
// come one after the other, each from one level.
//
//   (use() one answer note())*
//
// Thread rule: one thread. Ownership: model and clock outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/format/elastic_table.h"
#include "common/model/model.h"
#include "common/verify/engine.h"
#include "edge_client/generation/level_choice.h"
#include "edge_client/verifiers/resident.h"

namespace outrider {

class ElasticTarget final {
 public:
  // full: loaded with a level table. Measures each level on this device: two short prompts.
  static Result<std::unique_ptr<ElasticTarget>> create(Model& full,
                                                       const SchedulerOptions& scheduling,
                                                       Clock& clock);

  // The full model's, to which clients add a level's: "NAME@60".
  const std::string& name() const { return name_; }
  const std::vector<ElasticLevel>& levels() const { return table_->levels; }
  // For the user: the levels with their measured times.
  std::string about() const;
  const std::vector<LevelProfile>& profile() const { return profile_; }

  // Chooses the level of the next answer. Errors: those of choose_level().
  Result<LevelChoice> choose(const LevelWish& wish, const AnswerSize& size) const;
  // From now on the verifier's answers come from this level. UNAVAILABLE if the level before does
  // not end its last pass.
  Status use(std::size_t level);
  Verifier& verifier() { return *verifier_; }
  // An answer of that level has ended: what it took is what the next is expected to take.
  void note(std::size_t level, std::int64_t tokens, std::optional<double> tpot_ms);

 private:
  ElasticTarget(std::string name, std::shared_ptr<const ElasticTable> table,
                const SchedulerOptions& scheduling, Clock& clock)
      : name_(std::move(name)), table_(std::move(table)), scheduling_(scheduling), clock_(clock) {}

  struct Level {
    std::unique_ptr<Model> model;
    std::unique_ptr<VerifyEngine> engine;  // null: nothing was asked of it yet
  };

  Status measure(std::size_t level);
  VerifyEngine& engine_of(std::size_t level);

  const std::string name_;
  const std::shared_ptr<const ElasticTable> table_;
  const SchedulerOptions scheduling_;
  Clock& clock_;
  std::vector<Level> levels_;
  std::unique_ptr<ResidentVerifier> verifier_;
  std::vector<LevelProfile> profile_;
  std::deque<std::int64_t> lengths_;  // of the last answers
  std::size_t current_ = 0;
};

}  // namespace outrider
