// What speculation asks its session to do, as plain values (DESIGN L4).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/drafting/draft_step.h"
#include "common/protocol/messages.h"

namespace outrider {

// At most one step is out at a time.
struct RunDraftStep {
  DraftStep step;
};

// The step that is out runs rows of dead nodes only: its DraftStepFinished may come early.
struct AbandonDraftStep {};

// One line for the user (DESIGN L5).
struct Say {
  enum class Level : std::uint8_t { kInfo, kWarning } level = Level::kInfo;
  std::string line;
};

// A Grow or Policy is to be sent to the verifier.
using SpeculationAction = std::variant<Grow, Policy, RunDraftStep, AbandonDraftStep, Say>;
using SpeculationActions = std::vector<SpeculationAction>;

}  // namespace outrider
