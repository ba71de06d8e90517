// The levels of this device's target over the same weights: answers come one after the other, each
// from one level. Only the last level's keys and values are in memory, so many levels need little
// more of it than one; a text that goes on at another level is read again.
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
  // From now on the verifier's answers come from this level. Waits for a pass of the level before,
  // which an answer that was cut may have left.
  void use(std::size_t level);
  Verifier& verifier() { return *verifier_; }
  // An answer of that level has ended: what it took is what the next is expected to take.
  void note(std::size_t level, std::int64_t tokens, std::optional<double> tpot_ms);

 private:
  ElasticTarget(std::string name, std::shared_ptr<const ElasticTable> table,
                const SchedulerOptions& scheduling, Clock& clock)
      : name_(std::move(name)), table_(std::move(table)), scheduling_(scheduling), clock_(clock) {}

  Status measure(std::size_t level);
  void start(std::size_t level);

  const std::string name_;
  const std::shared_ptr<const ElasticTable> table_;
  const SchedulerOptions scheduling_;
  Clock& clock_;
  std::vector<std::unique_ptr<Model>> levels_;
  std::unique_ptr<VerifyEngine> engine_;  // of the current level
  std::unique_ptr<ResidentVerifier> verifier_;
  std::vector<LevelProfile> profile_;
  std::deque<std::int64_t> lengths_;  // of the last answers
  std::size_t current_ = 0;
};

}  // namespace outrider
