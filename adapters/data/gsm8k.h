// GSM8K (Cobbe et al. 2021, MIT) as prompts and answers.
//
// The calculator annotations ("<<48/2=24>>") are left out: they are notes for a tool, and without
// them the answers read as text. Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "adapters/data/robot_scene.h"
#include "common/base/status.h"

namespace outrider {

// The last so many problems of train.jsonl are never trained on.
inline constexpr std::size_t kGsm8kHeldOut = 300;

struct PromptAnswer {
  std::string prompt, answer;
};

// The problems of one split, in the file's order. Errors: those of reading and parsing `path`.
Result<std::vector<PromptAnswer>> read_gsm8k(const std::string& path, Split split);

std::string without_annotations(const std::string& answer);

}  // namespace outrider
