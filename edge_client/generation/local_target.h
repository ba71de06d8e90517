// The target on this device, in place of a server's.
//
// Thread rule: load() and the verifier from one thread. Ownership: the clock outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "common/base/clock.h"
#include "common/exits/exit_heads.h"
#include "common/model/model.h"
#include "common/verify/engine.h"
#include "edge_client/generation/generation_config.h"
#include "edge_client/verifiers/resident.h"

namespace outrider {

class LocalTarget final {
 public:
  // The target in config.target.
  static Result<std::unique_ptr<LocalTarget>> load(const GenerationConfig& config, Clock& clock);

  Verifier& verifier() { return *verifier_; }

 private:
  LocalTarget() = default;

  std::unique_ptr<Model> model_;
  std::unique_ptr<ExitHeads> exits_;  // null: none
  std::unique_ptr<VerifyEngine> engine_;
  std::unique_ptr<ResidentVerifier> verifier_;
};

}  // namespace outrider
