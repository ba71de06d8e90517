// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/elastic_target.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/model/cpu/cpu_model.h"

namespace outrider {
namespace {

constexpr std::int32_t kProfiledPrompt = 64;  // rows
constexpr int kProfiledTokens = 5;
constexpr std::size_t kLengths = 200;  // of earlier answers
constexpr double kNewest = 0.5;        // weight of the last answer's tpot

}  // namespace

Result<std::unique_ptr<ElasticTarget>> ElasticTarget::create(Model& full,
                                                             const SchedulerOptions& scheduling,
                                                             Clock& clock) {
  std::shared_ptr<const ElasticTable> table = elastic_table_of(full);
  if (table == nullptr) return failed_precondition(full.info().name + " has no level table");
  std::unique_ptr<ElasticTarget> self(
      new ElasticTarget(full.info().name, std::move(table), scheduling, clock));
  for (std::size_t i = 0; i < self->table_->levels.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                              make_level(full, self->table_->levels[i]));
    self->levels_.push_back(std::move(model));
    self->profile_.push_back({.name = self->table_->levels[i].name});
    OUTRIDER_RETURN_IF_ERROR(self->measure(i));
  }
  self->start(0);
  return self;
}

// The first pass of each kind warms up; of the others the fastest counts.
Status ElasticTarget::measure(std::size_t level) {
  Model& model = *levels_[level];
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                            model.new_cache(2 * kProfiledPrompt + kProfiledTokens));
  PassOutput out;
  const auto pass_ms = [&](std::int32_t count) -> Result<double> {
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (std::int32_t i = 0; i < count; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(slot, cache->slots().append(slot));
      rows.push_back({cache.get(), slot, i % model.info().vocab_size, i + 1 == count});
    }
    const TimePoint begin = clock_.now();
    OUTRIDER_RETURN_IF_ERROR(model.forward(rows, out));
    const double took = to_ms(clock_.now() - begin);
    cache->slots().commit(slot);
    return took;
  };
  const auto prompt = static_cast<std::int32_t>(
      std::min<Position>(kProfiledPrompt, model.info().max_positions / 4));
  OUTRIDER_RETURN_IF_ERROR(pass_ms(prompt).status());
  OUTRIDER_ASSIGN_OR_RETURN(const double prefill, pass_ms(prompt));
  profile_[level].prefill_ms = prefill / prompt;
  for (int i = 0; i < kProfiledTokens; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const double took, pass_ms(1));
    double& tpot = profile_[level].tpot_ms;
    tpot = i == 0 ? took : std::min(tpot, took);
  }
  return {};
}

std::string ElasticTarget::about() const {
  std::string text = "levels";
  for (const LevelProfile& level : profile_) {
    char times[96];
    std::snprintf(times, sizeof(times), " %s (%.3g + %.3g ms per token)", level.name.c_str(),
                  level.prefill_ms, level.tpot_ms);
    text += (&level == &profile_.front() ? "" : ",") + std::string(times);
  }
  return text;
}

Result<LevelChoice> ElasticTarget::choose(const LevelWish& wish, const AnswerSize& size) const {
  return choose_level(profile_, wish, size, usual_length({lengths_.begin(), lengths_.end()}));
}

void ElasticTarget::use(std::size_t level) {
  if (level != current_) start(level);
}

// Levels share threads and scratch memory: the engine before ends, with its pass, before the next
// one has anything to compute.
void ElasticTarget::start(std::size_t level) {
  auto engine = std::make_unique<VerifyEngine>(*levels_[level], scheduling_, clock_);
  if (verifier_ == nullptr) {
    verifier_ = std::make_unique<ResidentVerifier>(*engine);
  } else {
    verifier_->decide_by(*engine);
  }
  engine_ = std::move(engine);
  current_ = level;
}

void ElasticTarget::note(std::size_t level, std::int64_t tokens, std::optional<double> tpot_ms) {
  lengths_.push_back(tokens);
  if (lengths_.size() > kLengths) lengths_.pop_front();
  if (!tpot_ms || *tpot_ms <= 0) return;
  double& tpot = profile_[level].tpot_ms;
  tpot += kNewest * (*tpot_ms - tpot);
}

}  // namespace outrider
