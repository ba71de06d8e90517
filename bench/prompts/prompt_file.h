// Prompts of JSONL files as text, one object a line. Thread rule: pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct PromptLine {
  std::string name;    // "file.jsonl:12"
  std::string prompt;  // "prompt", "question", "instruction" or the first of "turns"
  std::string answer;  // "answer"; empty if the line has none
};

// The first `limit` prompts of the file; 0: all. INVALID_ARGUMENT for a file without prompts, or
// for a line that is none, by its name.
Result<std::vector<PromptLine>> read_prompt_file(const std::string& path, std::size_t limit);

}  // namespace outrider
