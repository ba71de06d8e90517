// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/local_draft.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "common/decoding/drafting/vocabulary/translated_draft.h"
#include "common/engine/model/devices/device_models.h"

namespace outrider {

// With the model's whole context: config's is the answer's length, and where a draft has less,
// drafting ends there and the answer goes on.
Result<std::unique_ptr<Model>> load_draft_model(const GenerationConfig& config) {
  const std::string& own = config.draft_device;
  LoadOptions options = for_device(config.loading, own.empty() ? config.loading.device : own);
  options.directory = config.model;
  options.kv_positions =
      config.answer.context > 0 ? config.answer.context : std::numeric_limits<Position>::max();
  Result<std::unique_ptr<Model>> model = load_model(options, make_device_model);
  if (!model.ok()) return model.status().with_context("draft " + config.model);
  return model;
}

Result<std::unique_ptr<LocalDraft>> LocalDraft::of(std::unique_ptr<Model> model,
                                                   const GenerationConfig& config, Clock& clock,
                                                   ComputeGate* gate,
                                                   std::optional<ForeignVocabulary> foreign) {
  if (config.draft_pacer != nullptr) model = config.draft_pacer->pace(std::move(model), clock);
  // Around the pace, whose clock begins behind the wait.
  if (gate != nullptr) model = make_yielding_model(std::move(model), *gate);
  if (foreign) {
    OUTRIDER_ASSIGN_OR_RETURN(
        model, TranslatedDraft::create(std::move(model), std::move(foreign->tokenizer),
                                       foreign->target, config.answer.context));
  }
  DrafterOptions drafting = config.drafter;
  drafting.max_positions = config.answer.context;
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<LocalDraft> draft,
                            create(std::move(model), drafting, clock));
  draft->pacer_ = config.draft_pacer;
  return draft;
}

Status LocalDraft::guess_beside(std::unique_ptr<Model> second) {
  second_ = std::move(second);
  return worker_->guess_beside(*second_);
}

DrafterOptions drafter_options(const ModelInfo& draft, DrafterOptions wanted) {
  const Position context = wanted.max_positions;
  wanted.max_positions = context > 0 ? std::min(context, draft.max_positions) : draft.max_positions;
  wanted.vocab_size = draft.vocab_size;
  return wanted;
}

std::uint64_t LocalDraft::overruns() const {
  return pacer_ == nullptr ? 0 : static_cast<std::uint64_t>(pacer_->counts().overruns);
}

Result<std::unique_ptr<LocalDraft>> LocalDraft::create(std::unique_ptr<Model> model,
                                                       const DrafterOptions& wanted, Clock& clock) {
  const DrafterOptions drafting = drafter_options(model->info(), wanted);
  // A slot for each committed token and each node of the tree.
  const auto capacity = static_cast<std::int32_t>(
      std::min<Position>(drafting.max_positions + static_cast<Position>(drafting.max_nodes),
                         std::numeric_limits<std::int32_t>::max()));
  Result<std::unique_ptr<DraftEngine>> engine = DraftEngine::create(*model, clock, capacity);
  if (!engine.ok()) {
    return engine.status().with_context("the draft's cache of " + std::to_string(capacity) +
                                        " tokens (ask for less with -c)");
  }
  return std::unique_ptr<LocalDraft>(
      new LocalDraft(std::move(model), *std::move(engine), drafting));
}

}  // namespace outrider
