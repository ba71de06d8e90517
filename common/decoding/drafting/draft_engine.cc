// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/draft_engine.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/engine/model/row_check.h"

namespace outrider {
namespace {

// What both guess is surer than what one does.
void add_guesses(const std::vector<Guess>& more, std::vector<Guess>& guesses) {
  for (const Guess& guess : more) {
    const auto same = std::ranges::find(guesses, guess.token, &Guess::token);
    if (same == guesses.end()) {
      guesses.push_back(guess);
    } else {
      same->confidence = 1 - (1 - same->confidence) * (1 - guess.confidence);
    }
  }
  std::ranges::stable_sort(guesses, std::greater{}, &Guess::confidence);
}

}  // namespace

Result<std::unique_ptr<DraftEngine>> DraftEngine::create(Model& model, const Clock& clock,
                                                         std::int32_t capacity) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, model.new_cache(capacity));
  return std::unique_ptr<DraftEngine>(new DraftEngine(model, clock, std::move(cache)));
}

Status DraftEngine::guess_beside(Model& second) {
  OUTRIDER_ASSIGN_OR_RETURN(second_, create(second, clock_, cache_->slots().capacity()));
  return {};
}

Result<DraftStepDone> DraftEngine::run(const DraftStep& step, const std::atomic<bool>* abandoned) {
  if (second_ == nullptr) return run_own(step, abandoned);
  OUTRIDER_ASSIGN_OR_RETURN(const DraftStepDone beside, second_->run(step));
  OUTRIDER_ASSIGN_OR_RETURN(DraftStepDone done, run_own(step, abandoned));
  OUTRIDER_CHECK(done.slots == beside.slots);
  for (std::size_t i = 0; i < done.guesses.size(); ++i) {
    add_guesses(beside.guesses[i], done.guesses[i]);
  }
  done.compute += beside.compute;
  return done;
}

Result<DraftStepDone> DraftEngine::run_own(const DraftStep& step,
                                           const std::atomic<bool>* abandoned) {
  const TimePoint begin = clock_.now();
  KvSlots& slots = cache_->slots();
  if (step.keep && *step.keep < slots.committed()) slots.truncate(*step.keep);
  if (step.keep) slots.release_all_uncommitted();
  if (step.commit) slots.commit(*step.commit);
  for (const Slot slot : step.release) {
    // What died with a commit is free already.
    if (slots.holds(slot) && !slots.is_committed(slot)) slots.release(slot);
  }
  DraftStepDone done;
  OUTRIDER_RETURN_IF_ERROR(make_rows(step, done));
  abandoned_ = abandoned;
  const bool may_end = abandoned_ != nullptr && step.catch_up.empty();
  output_.abandoned = {&abandoned_, may_end ? std::size_t{1} : 0};
  output_.waited = {};
  const Status passed = model_.forward(rows_, output_);
  if (passed.code() == StatusCode::kCancelled && output_.is_abandoned()) {
    done.abandoned = true;
    done.compute = clock_.now() - begin - output_.waited;
    return done;
  }
  OUTRIDER_RETURN_IF_ERROR(passed);
  OUTRIDER_RETURN_IF_ERROR(check_logits(rows_, output_));
  if (!step.catch_up.empty()) slots.commit(rows_.back().slot);
  if (step.guess_after_catch_up) {
    done.guesses.push_back(guess(0, slots.committed(), step.fan_out));
  }
  for (std::size_t i = 0; i < done.slots.size(); ++i) {
    done.guesses.push_back(guess(i, slots.position(done.slots[i]) + 1, step.fan_out));
  }
  done.compute = clock_.now() - begin - output_.waited;
  return done;
}

Status DraftEngine::make_rows(const DraftStep& step, DraftStepDone& done) {
  KvSlots& slots = cache_->slots();
  rows_.clear();
  if (!step.catch_up.empty()) slots.release_all_uncommitted();
  Slot parent = kRootSlot;
  for (const TokenId token : step.catch_up) {
    OUTRIDER_ASSIGN_OR_RETURN(parent, slots.append(parent));
    rows_.push_back({cache_.get(), parent, token, false});
  }
  if (step.guess_after_catch_up) rows_.back().wants_logits = true;
  for (const DraftRow& row : step.grow) {
    const Slot above =
        row.parent_row < 0 ? row.parent : done.slots.at(static_cast<std::size_t>(row.parent_row));
    OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, slots.append(above));
    rows_.push_back({cache_.get(), slot, row.token, true});
    done.slots.push_back(slot);
  }
  return {};
}

// None of a row for which the model has no logits.
std::vector<Guess> DraftEngine::guess(std::size_t row, Position position, int fan_out) const {
  if (!output_.has_row(row)) return {};
  return guess_next(output_.row(row), choice_.sampling, choice_.seed, position, fan_out);
}

}  // namespace outrider
