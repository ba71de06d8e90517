// Runs the drafter's steps on the draft model: owns the model's cache, decides nothing.
//
// Thread rule: one compute thread calls run(). Errors: the model's and the cache's, passed on, and
// DATA_LOSS for logits that name no token; the cache is then in no defined state and the engine
// must not be used again. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/drafting/draft_step.h"
#include "common/model/model.h"
#include "common/sampling/sampling.h"

namespace outrider {

class DraftEngine final {
 public:
  // capacity: slots of the cache, committed text and tree together. model and clock must outlive
  // the engine.
  static Result<std::unique_ptr<DraftEngine>> create(Model& model, const Clock& clock,
                                                     std::int32_t capacity);

  // The law of choice the guesses follow; set before the first step of an answer.
  void set_sampling(const SamplingParams& sampling, std::uint64_t seed);

  // Blocks for as long as the model's pass takes. abandoned: becomes true, perhaps during the pass,
  // when the step's rows are obsolete; only for steps that grow. Outlives the call.
  Result<DraftStepDone> run(const DraftStep& step, const std::atomic<bool>* abandoned = nullptr);

 private:
  DraftEngine(Model& model, const Clock& clock, std::unique_ptr<KvCache> cache)
      : model_(model), clock_(clock), cache_(std::move(cache)) {}

  Status make_rows(const DraftStep& step, DraftStepDone& done);
  std::vector<Guess> guess(std::size_t row, Position position, int fan_out) const;

  Model& model_;
  const Clock& clock_;
  const std::unique_ptr<KvCache> cache_;
  SamplingParams sampling_;
  std::uint64_t seed_ = 0;
  std::vector<Row> rows_;  // reused from step to step
  PassOutput output_;
};

}  // namespace outrider
