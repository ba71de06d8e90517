// The actions that speculation asks of its session beside sending nodes, and the draft's work, as
// plain values.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/decoding/drafting/draft_step.h"
#include "common/decoding/protocol/messages.h"

namespace outrider {

// Run this step on the draft model. At most one step is out at a time.
struct RunDraftStep {
  DraftStep step;
};

// The step that is out runs rows of dead nodes only: it may stop early. Its DraftStepFinished
// follows.
struct AbandonDraftStep {};

// One line for the user.
struct Say {
  enum class Level : std::uint8_t { kInfo, kWarning } level = Level::kInfo;
  std::string line;
};

// A Policy is to be sent to the verifier.
using SpeculationAction = std::variant<Policy, AbandonDraftStep, Say>;
using SpeculationActions = std::vector<SpeculationAction>;

}  // namespace outrider
