// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/elastic_target.h"

#include <utility>

#include "common/engine/model/cpu/cpu_model.h"

namespace outrider {

ElasticTarget::ElasticTarget(Model& full, FlashModel* flash)
    : full_(full),
      flash_(flash),
      name_(flash != nullptr ? flash->pack().files().name : full.info().name),
      table_(flash != nullptr ? flash->pack().elastic() : elastic_table_of(full).get()) {
  if (flash != nullptr) {
    stored_ = flash->levels();
  } else if (table_ != nullptr) {
    stored_ = table_->levels;
  }
}

Result<std::unique_ptr<ElasticTarget>> ElasticTarget::create(Model& full, FlashModel* flash,
                                                             const SchedulerOptions& scheduling,
                                                             Clock& clock) {
  std::unique_ptr<ElasticTarget> self(new ElasticTarget(full, flash));
  if (self->stored_.empty()) return failed_precondition(self->name_ + " has no level table");
  DiskWaits waits;
  if (flash != nullptr && flash->plan().streamed_bytes > 0) {
    waits = [flash] { return flash->log().times().waiting; };
  }
  std::vector<NamedLevel> named;
  for (const ElasticLevel& level : self->stored_) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, flash != nullptr
                                                                ? flash->make_level(level)
                                                                : make_level(full, level));
    named.push_back({level.name, model.get()});
    self->models_.push_back(std::move(model));
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<LevelProfile> profile, measure_levels(named, clock, waits));
  self->book_.emplace(*self->table_,
                      std::vector<ElasticLevel>(self->stored_.begin(), self->stored_.end()),
                      std::move(profile));
  self->engine_ = std::make_unique<VerifyEngine>(*self->models_[0], scheduling, clock);
  self->verifier_ = std::make_unique<ResidentVerifier>(*self->engine_);
  return self;
}

Result<std::unique_ptr<Model>> ElasticTarget::make_draft(const std::string& level, int threads) {
  OUTRIDER_ASSIGN_OR_RETURN(const ElasticLevel* found, find_level(*table_, level));
  const auto at = found - stored_.data();
  if (at <= 0) {
    return invalid_argument("--draft-level " + level +
                            " is the full model, which drafts for no larger one. Remedy: a smaller "
                            "level, of those that --target lists");
  }
  draft_level_ = static_cast<std::size_t>(at);
  return flash_ != nullptr ? flash_->make_level_beside(*found, threads)
                           : make_level_beside(full_, *found, threads);
}

void ElasticTarget::use(std::size_t level) {
  if (level == current_) return;
  verifier_->stop();
  engine_->change_model(*models_[level]);
  current_ = level;
}

}  // namespace outrider
