// SPDX-License-Identifier: Apache-2.0
#include "edge_client/drafting/draft_engine.h"

#include <cmath>
#include <utility>

#include "common/model/row_check.h"

namespace outrider {
namespace {

// Softmax denominator relative to `top`, the largest logit; NaN and -infinity count as nothing.
double sum_of_exponentials(std::span<const float> logits, float top) {
  double sum = 0;
  for (const float logit : logits) {
    if (logit > top - 30.0f) sum += std::exp(logit - top);  // the rest is below 1e-13 of it
  }
  return sum;
}

}  // namespace

Result<std::unique_ptr<DraftEngine>> DraftEngine::create(Model& model, const Clock& clock,
                                                         std::int32_t capacity) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, model.new_cache(capacity));
  return std::unique_ptr<DraftEngine>(new DraftEngine(model, clock, std::move(cache)));
}

void DraftEngine::set_sampling(const SamplingParams& sampling, std::uint64_t seed) {
  sampling_ = sampling;
  seed_ = seed;
}

Result<DraftStepDone> DraftEngine::run(const DraftStep& step, const std::atomic<bool>* abandoned) {
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
  output_.abandoned = step.catch_up.empty() ? abandoned : nullptr;
  const Status passed = model_.forward(rows_, output_);
  if (passed.code() == StatusCode::kCancelled) {
    done.abandoned = true;
    done.compute = clock_.now() - begin;
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
  done.compute = clock_.now() - begin;
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

std::vector<Guess> DraftEngine::guess(std::size_t row, Position position, int fan_out) const {
  return guess_next(output_.row(row), sampling_, seed_, position, fan_out);
}

std::vector<Guess> guess_next(std::span<const float> logits, const SamplingParams& sampling,
                              std::uint64_t seed, Position position, int fan_out) {
  const std::vector<Candidate> best = rank(logits, sampling, seed, position, fan_out + 1);
  std::vector<Guess> guesses;
  const bool greedy = sampling.temperature == 0.0f;
  const double sum = greedy && !best.empty() ? sum_of_exponentials(logits, best[0].score) : 1;
  for (std::size_t i = 0; i < best.size() && i < static_cast<std::size_t>(fan_out); ++i) {
    double confidence = 1;
    if (greedy) {
      confidence = std::exp(best[i].score - best[0].score) / sum;
    } else if (best.size() > 1) {
      const float other = best[i == 0 ? 1 : 0].score;
      confidence = 1 / (1 + std::exp(static_cast<double>(other) - best[i].score));
    }
    guesses.push_back({best[i].token, static_cast<float>(confidence)});
  }
  return guesses;
}

}  // namespace outrider
