// Prompts of the checks in a tokenizer's ids, from JSONL files (bench/prompts/prompt_file.h).
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/tokenizer.h"

namespace outrider {

struct BenchPrompt {
  std::string name;             // "file.jsonl:12"
  std::vector<TokenId> ids;     // as `outrider-edge run` puts it: in the chat template, if any
  std::vector<TokenId> answer;  // with the end of its turn; empty if the line has none
};

// The first `limit` prompts of the file; 0: all. Errors: those of read_prompt_file() and encoding.
Result<std::vector<BenchPrompt>> read_prompts(const std::string& path, const Tokenizer& tokenizer,
                                              std::size_t limit);

}  // namespace outrider
