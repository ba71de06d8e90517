// The target on this device, in place of a server's: in memory, or, if it is a pack, streamed from
// the device's flash as far as the memory budget asks for it.
//
// Thread rule: load() and the verifier from one thread. Ownership: the clock outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/decoding/exits/find_exits.h"
#include "common/decoding/request/sampling_defaults.h"
#include "common/decoding/verify/scheduling/engine.h"
#include "common/engine/model/model.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"
#include "edge_client/flash/flash_model.h"
#include "edge_client/generation/elastic_target.h"
#include "edge_client/generation/generation_config.h"
#include "edge_client/verifiers/resident.h"

namespace outrider {

class LocalTarget final {
 public:
  // The target that local_target_of() names. gate: closed while a streamed pass computes, and
  // outlives it; null: none.
  static Result<std::unique_ptr<LocalTarget>> load(const GenerationConfig& config, Clock& clock,
                                                   ComputeGate* gate = nullptr);

  // Whether load() will find --memory-budget large enough; loads nothing.
  static Status check_budget(const GenerationConfig& config);

  Verifier& verifier() { return elastic_ != nullptr ? elastic_->verifier() : *verifier_; }
  // To measure, between answers.
  Model& model() { return flash_ != nullptr ? flash_->model() : *model_; }
  // The model's own check (Model::check_unchanged()).
  Status check_unchanged() const {
    return (flash_ != nullptr ? flash_->model() : *model_).check_unchanged();
  }
  // The engine of a target without levels; null: it has levels, and elastic() verifies.
  VerifyEngine* engine() { return engine_.get(); }
  // Null: it has no levels.
  ElasticTarget* elastic() { return elastic_.get(); }
  const ModelInfo& info() const { return (flash_ != nullptr ? flash_->model() : *model_).info(); }
  // The source of the chat by which conversations with it are written.
  const ChatSource& chat() const { return chat_; }
  // How it samples where requests and flags are silent.
  const SamplingDefaults& sampling() const { return sampling_; }
  // Null: it is in memory.
  const FlashModel* flash() const { return flash_.get(); }

 private:
  LocalTarget() = default;

  void take_sampling(const GenerationConfig& config, const GenerationDefaults& generation);
  Result<FoundExits> find(const GenerationConfig& config);
  // Null: there is none.
  Result<std::unique_ptr<ExitHeads>> find_own_predictor(const GenerationConfig& config);
  void set_exits(const GenerationConfig& config, SchedulerOptions& scheduling);

  ChatSource chat_;
  SamplingDefaults sampling_;
  std::unique_ptr<Model> model_;          // null: flash_ has it
  std::unique_ptr<FlashModel> flash_;     // null: model_
  std::unique_ptr<ExitHeads> exits_;      // null: none
  std::unique_ptr<ExitHeads> predictor_;  // null: the exits prune, if anything does
  std::unique_ptr<VerifyEngine> engine_;
  std::unique_ptr<ResidentVerifier> verifier_;
  std::unique_ptr<ElasticTarget> elastic_;  // in place of engine_ and verifier_
};

// The tokenizer of a directory, a GGUF file or a pack.
Result<Tokenizer> load_model_tokenizer(const std::string& path);

}  // namespace outrider
