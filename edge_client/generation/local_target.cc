// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/local_target.h"

#include <utility>

#include "common/exits/find_exits.h"
#include "common/model/loader/loader.h"
#include "common/text/tokenizer.h"

namespace outrider {
namespace {

// Whether the edge may ask its verifier for exit reports: plain decoding and plain drafting never.
bool wants_exits(const GenerationConfig& config) {
  return wants_draft(config) && strategy_of(config.answer) != Strategy::kSd;
}

}  // namespace

Result<std::unique_ptr<LocalTarget>> LocalTarget::load(const GenerationConfig& config,
                                                       Clock& clock) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(config.target));
  LoadOptions options;
  options.directory = config.target;
  options.dtype = config.dtype;
  options.kv_dtype = config.kv_dtype;
  options.cache_dir = config.cache_dir;
  options.threads = config.threads;
  if (config.answer.context > 0) options.max_context = config.answer.context;
  Result<std::unique_ptr<Model>> model = load_model(options);
  if (!model.ok()) return model.status().with_context("target " + config.target);
  std::unique_ptr<LocalTarget> self(new LocalTarget);
  self->model_ = *std::move(model);
  SchedulerOptions scheduling;
  scheduling.tokenizer_hash = tokenizer.content_hash();
  if (wants_exits(config)) {
    Result<FoundExits> found = find_exits({.model = config.target}, self->model_->info());
    if (!found.ok()) return found.status().with_context("target " + config.target);
    self->exits_ = std::move(found->heads);
    scheduling.exits = self->exits_.get();
  }
  self->engine_ = std::make_unique<VerifyEngine>(*self->model_, scheduling, clock);
  self->verifier_ = std::make_unique<ResidentVerifier>(*self->engine_);
  return self;
}

}  // namespace outrider
