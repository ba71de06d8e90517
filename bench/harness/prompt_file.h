// Prompts of JSONL files as text, one object per line. Thread rule: pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// Robot prompts and open sets, 30 of each (its README.md says whose), from the repository's root.
inline constexpr const char* kPromptSets = "bench/prompts";

struct PromptLine {
  std::string name;    // "file.jsonl:12"
  std::string prompt;  // "prompt", "question", "instruction" or the first of "turns"
  std::string answer;  // "answer"; empty if the line has none
};

// The first `limit` prompts of a file, or of a folder's .jsonl files, by name, a prompt of each in
// turn; 0: all. INVALID_ARGUMENT where there are none or fewer than are asked for: what a check
// claims rests on how many answers it had; and for a line that is none, by its name. NOT_FOUND,
// with the remedy, where there is nothing: no package holds kPromptSets.
Result<std::vector<PromptLine>> read_prompt_file(const std::string& path, std::size_t limit);

// The error for `held` prompts if more are requested.
Status check_prompt_count(const std::string& path, std::size_t held, std::size_t wanted);

}  // namespace outrider
