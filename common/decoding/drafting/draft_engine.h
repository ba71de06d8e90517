// Runs the drafter's steps on the draft model. Owns the model's KV cache, and decides nothing. A
// second model may guess beside it: then both run each step, and their guesses are put together.
//
// Thread rule: one compute thread calls run(). Ownership: model and clock outlive the engine.
// Errors: those of the model and the cache, and DATA_LOSS for logits from which no token can be
// chosen. After an error the cache is undefined and the engine must not be used again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/drafting/draft_step.h"
#include "common/engine/model/model.h"
#include "common/engine/sampling/row_adjuster.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {

class DraftEngine final {
 public:
  // capacity: slots of the cache, for committed text and tree together.
  static Result<std::unique_ptr<DraftEngine>> create(Model& model, const Clock& clock,
                                                     std::int32_t capacity);

  // A model of microseconds, of at least the same vocabulary and context; outlives the engine.
  // Before the first step. Errors: as create().
  Status guess_beside(Model& second);

  // Guesses are chosen as the target chooses its tokens, with the same noise. Set before the first
  // step of an answer.
  void set_choice(const TokenChoice& choice);

  // Blocks while the model computes. abandoned: becomes true, perhaps during the pass, when the
  // step's rows are obsolete; only steps that grow look at it. Outlives the call.
  Result<DraftStepDone> run(const DraftStep& step, const std::atomic<bool>* abandoned = nullptr);

  // The share of the cache's pages in use, 0 to 1.
  double kv_usage() const {
    const KvPages& pages = cache_->pages();
    return static_cast<double>(pages.used()) / pages.count();
  }

 private:
  DraftEngine(Model& model, const Clock& clock, std::unique_ptr<KvCache> cache)
      : model_(model), clock_(clock), cache_(std::move(cache)) {}

  Result<DraftStepDone> run_own(const DraftStep& step, const std::atomic<bool>* abandoned);
  Status make_rows(const DraftStep& step, DraftStepDone& done);
  void move_text(const DraftStep& step);
  void append_text(std::span<const TokenId> tokens);
  void begin_adjuster();
  std::vector<TokenId> path_to(Slot slot) const;
  std::vector<Guess> guess(std::size_t row, Slot slot, int fan_out);

  Model& model_;
  const Clock& clock_;
  const std::unique_ptr<KvCache> cache_;
  std::unique_ptr<DraftEngine> second_;  // null: none. Its slots have the same numbers
  TokenChoice choice_;
  RowAdjuster adjuster_;                          // at the end of text_
  std::vector<TokenId> text_;                     // committed in the cache
  std::vector<TokenId> tokens_;                   // by slot: of uncommitted rows
  std::vector<float> adjusted_;                   // reused from row to row
  std::vector<Row> rows_;                         // reused from step to step
  const std::atomic<bool>* abandoned_ = nullptr;  // of the current step
  PassOutput output_;
};

}  // namespace outrider
