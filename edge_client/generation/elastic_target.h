// The levels of this device's target over the same weights: answers come one after the other, each
// from one level. Only the last level's keys and values are in memory, so many levels need little
// more of it than one; a text that goes on at another level is read again.
//
//   (book().choose() use() one answer book().note())*
//
// Thread rule: one thread. Ownership: model, flash and clock outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/levels/level_book.h"
#include "common/decoding/verify/scheduling/engine.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/model.h"
#include "edge_client/flash/flash_model.h"
#include "edge_client/verifiers/resident.h"

namespace outrider {

class ElasticTarget final {
 public:
  // full: loaded with a level table, or the model of `flash`, whose pack has levels; null: it is in
  // memory. Measures each level on this device.
  static Result<std::unique_ptr<ElasticTarget>> create(Model& full, FlashModel* flash,
                                                       const SchedulerOptions& scheduling,
                                                       Clock& clock);

  // The full model's, to which clients add a level's: "NAME@60".
  const std::string& name() const { return name_; }
  LevelBook& book() { return *book_; }
  const std::vector<ElasticLevel>& levels() const { return book_->levels(); }
  // One of these levels, alone. Not while another computes.
  Model& model(std::size_t level) { return *models_[level]; }

  // A level that drafts for larger ones (self-speculation): over the same weights, with threads,
  // scratch memory, keys and values of its own. Called once. Errors: NOT_FOUND listing the levels;
  // INVALID_ARGUMENT for the full one, which drafts for none.
  Result<std::unique_ptr<Model>> make_draft(const std::string& level, int threads);
  // Whether the draft, if it is a level, is smaller than this one.
  bool draft_is_smaller(std::size_t level) const { return !draft_level_ || level < *draft_level_; }

  // The verifier's next start() is answered by this level. Ends its stream.
  void use(std::size_t level);
  Verifier& verifier() { return *verifier_; }
  // Computes all levels; its stats() begin again with each.
  const VerifyEngine& engine() const { return *engine_; }

 private:
  ElasticTarget(Model& full, FlashModel* flash);

  Model& full_;
  FlashModel* const flash_;  // null: full_ is in memory
  const std::string name_;
  const ElasticTable* const table_;             // of flash_, or else of full_; null: it has none
  std::span<const ElasticLevel> stored_;        // of the table: what models refer to
  std::vector<std::unique_ptr<Model>> models_;  // by level
  std::optional<LevelBook> book_;
  // These belong to the current level. Levels share threads and scratch memory, so one engine
  // computes them all.
  std::unique_ptr<VerifyEngine> engine_;
  std::unique_ptr<ResidentVerifier> verifier_;
  std::size_t current_ = 0;
  std::optional<std::size_t> draft_level_;  // nothing: no level drafts
};

}  // namespace outrider
