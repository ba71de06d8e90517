// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/draft_engine.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/engine/model/row_check.h"

namespace outrider {
namespace {

// A token that both guess is more likely than one that a single source guesses.
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

void DraftEngine::set_choice(const TokenChoice& choice) {
  if (second_ != nullptr) second_->set_choice(choice);
  if (choice == choice_) return;
  choice_ = choice;
  begin_adjuster();
}

void DraftEngine::begin_adjuster() {
  adjuster_ = RowAdjuster(choice_.settings, choice_.answer_begin, choice_.stop_ids);
  adjuster_.append(text_);
}

void DraftEngine::append_text(std::span<const TokenId> tokens) {
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  adjuster_.append(tokens);
}

// The tokens of the uncommitted rows down to the slot's.
std::vector<TokenId> DraftEngine::path_to(Slot slot) const {
  const KvSlots& slots = cache_->slots();
  std::vector<TokenId> path;
  for (; slot != kRootSlot && !slots.is_committed(slot); slot = slots.parent(slot)) {
    path.push_back(tokens_.at(static_cast<std::size_t>(slot)));
  }
  std::ranges::reverse(path);
  return path;
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
  move_text(step);
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
  if (!step.catch_up.empty()) {
    slots.commit(rows_.back().slot);
    append_text(step.catch_up);
  }
  if (step.guess_after_catch_up) done.guesses.push_back(guess(0, kRootSlot, step.fan_out));
  for (std::size_t i = 0; i < done.slots.size(); ++i) {
    done.guesses.push_back(guess(i, done.slots[i], step.fan_out));
  }
  done.compute = clock_.now() - begin - output_.waited;
  return done;
}

// Cuts, commits and frees, as the step wants before its rows.
void DraftEngine::move_text(const DraftStep& step) {
  KvSlots& slots = cache_->slots();
  if (step.keep && *step.keep < slots.committed()) {
    slots.truncate(*step.keep);
    text_.resize(static_cast<std::size_t>(*step.keep));
    begin_adjuster();
  }
  if (step.keep) slots.release_all_uncommitted();
  if (step.commit) {
    append_text(path_to(*step.commit));
    slots.commit(*step.commit);
  }
  for (const Slot slot : step.release) {
    // A commit has freed the slots of branches that it ended.
    if (slots.holds(slot) && !slots.is_committed(slot)) slots.release(slot);
  }
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
    const auto place = static_cast<std::size_t>(slot);
    if (tokens_.size() <= place) tokens_.resize(place + 1);
    tokens_[place] = row.token;
  }
  return {};
}

// Guesses for the token after the slot's row; none where the model gave no logits for it.
std::vector<Guess> DraftEngine::guess(std::size_t row, Slot slot, int fan_out) {
  if (!output_.has_row(row)) return {};
  const std::vector<TokenId> path = path_to(slot);
  const Position position = cache_->slots().committed() + std::ssize(path);
  return guess_next(adjuster_.adjust(output_.row(row), path, adjusted_), choice_.sampling,
                    choice_.seed, position, fan_out);
}

}  // namespace outrider
