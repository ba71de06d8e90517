// The robot task in words: situations as prompts, decisions as answers, in JSONL.
//
// Example index i of a (seed, split) is a pure function of the three, so any part of the data can
// be made anywhere. Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "adapters/data/robot_scene.h"

namespace outrider {

struct RobotExample {
  std::string prompt;  // scene and instruction
  std::string answer;  // reasoning, then "Action: ..." on the last line
  std::string action;  // "turn left (small)"
};

RobotExample make_robot_example(std::uint64_t seed, std::uint64_t index, Split split);

// "Report where the blue box, the door and the red chair are." or "Report every chair.": several
// things to find in one scene, none held out; the action is to stop. It exercises reading scenes,
// with several look-ups per answer, and so speeds up learning to act.
RobotExample make_robot_report(std::uint64_t seed, std::uint64_t index);

// The wording of the prompt varies with `random`. The answer is a function of the situation, so a
// wrong answer can be recognized.
std::string prompt_text(const Situation& situation, SplitMix64& random);
std::string answer_text(const Situation& situation, const Decision& decision);

// The text after the last "Action: " up to the end of its line; empty if there is none.
std::string action_in(std::string_view answer);

}  // namespace outrider
