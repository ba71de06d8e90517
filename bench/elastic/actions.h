// Scores levels where an answer is useful only if it ends with the right action, as the robot's
// does (docs/elastic.md).
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/check.h"
#include "bench/elastic/level_answers.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

struct ActionPrompts {
  std::string file = "bench/prompts/robot.jsonl";  // JSONL of "prompt" and "answer"
  std::size_t count = 5;                           // 0: all
  // A regular expression: the end of a text that can be acted on.
  std::string pattern =
      "\\nAction: (stop|(turn left|turn right|move forward) \\((small|medium|large)\\))$";
};

// Counts the levels' right actions, those that are the full model's, and the texts that are. Holds
// nothing. Errors: INVALID_ARGUMENT for a pattern that is none, and for prompts without answers.
Result<CheckOutcome> check_actions(LevelAnswers& edge, const std::vector<std::string>& levels,
                                   const ActionPrompts& asked, Position max_tokens);

// A target that is streamed from an emulated flash, while one of its levels stays in memory and
// drafts: the edge's own code, in virtual time.
struct DeadlineCheck {
  LevelAnswersOptions edge;  // its flash is emulated: what the level lacks is read
  std::string level = "60";  // it drafts
  std::string pass_ms = "1:20,33:60", step_ms = "1:12,33:40";  // computing, as PaceCurve::parse()
  int time_ms = 800;                                           // after the request
  Position max_tokens = 80;
};

// Holds that almost all texts given by the deadline can be acted on, that all answers are plain
// decoding's, and that a median answer takes much longer than the deadline. Errors: those of
// loading; INVALID_ARGUMENT for a pattern or a pace that is none, without a flash or a level table.
Result<CheckOutcome> check_deadline(const DeadlineCheck& check, const ActionPrompts& asked);

}  // namespace outrider
