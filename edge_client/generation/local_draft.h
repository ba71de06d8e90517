// The draft on this device: its model, what decides what to draft, and the thread that computes.
// Serves one answer at a time, and keeps what later answers can use again.
//
// Thread rule: one thread. Ownership: the clock outlives it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/drafting/drafter.h"
#include "common/engine/model/model.h"
#include "common/engine/text/tokenizer.h"
#include "edge_client/flash/compute_gate.h"
#include "edge_client/generation/generation_config.h"
#include "edge_client/shell/draft_worker.h"

namespace outrider {

// How a draft of this device drafts. wanted.max_positions: of prompt and answer together; 0: as the
// model's context allows.
DrafterOptions drafter_options(const ModelInfo& draft, DrafterOptions wanted);

// The model in config.model.
Result<std::unique_ptr<Model>> load_draft_model(const GenerationConfig& config);

// A draft of another vocabulary than the target's.
struct ForeignVocabulary {
  Tokenizer tokenizer;      // the draft's
  const Tokenizer& target;  // outlives the draft
};

class LocalDraft final {
 public:
  // At config's pace. gate: at which its passes wait, and which outlives it; null: none. foreign:
  // nothing where the draft's ids are the target's.
  static Result<std::unique_ptr<LocalDraft>> of(std::unique_ptr<Model> model,
                                                const GenerationConfig& config, Clock& clock,
                                                ComputeGate* gate = nullptr,
                                                std::optional<ForeignVocabulary> foreign = {});
  static Result<std::unique_ptr<LocalDraft>> create(std::unique_ptr<Model> model,
                                                    const DrafterOptions& wanted, Clock& clock);
  // This one guesses too; before the first answer. As DraftEngine::guess_beside().
  Status guess_beside(std::unique_ptr<Model> second);

  const ModelInfo& info() const { return model_->info(); }
  // To measure, between answers.
  Model& model() { return *model_; }
  bool is_paced() const { return pacer_ != nullptr; }
  // Steps so far that were slower than the emulated pace.
  std::uint64_t overruns() const;
  Drafter& drafter() { return *drafter_; }
  DraftWorker& worker() { return *worker_; }

  // The share of its memory for keys and values in use, 0 to 1; nothing: it keeps none that it
  // counts, as look-up and a draft of another vocabulary. Any thread.
  std::optional<double> kv_usage() const {
    if (info().kv_bytes_per_position == 0) return {};
    return worker_->kv_usage();
  }

  // The next answer uses nothing of those before. Only between answers.
  void forget() { drafter_ = std::make_unique<Drafter>(options_); }

 private:
  LocalDraft(std::unique_ptr<Model> model, std::unique_ptr<DraftEngine> engine,
             const DrafterOptions& options)
      : model_(std::move(model)),
        options_(options),
        drafter_(std::make_unique<Drafter>(options)),
        worker_(std::make_unique<DraftWorker>(std::move(engine))) {}

  const std::unique_ptr<Model> model_;
  std::unique_ptr<Model> second_;            // guesses beside it; null: none
  std::shared_ptr<const ModelPacer> pacer_;  // null: model_ runs as fast as it goes
  const DrafterOptions options_;
  std::unique_ptr<Drafter> drafter_;
  const std::unique_ptr<DraftWorker> worker_;
};

}  // namespace outrider
