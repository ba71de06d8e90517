// Public prompt collections as prompts and answers, or as plain text, for training.
//
// Thread rule: free functions. Errors: those of reading and parsing, naming the place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "adapters/data/gsm8k.h"
#include "common/base/status.h"

namespace outrider {

// MBPP (Austin et al. 2021, CC BY 4.0) as lines of "prompt" (a function's head with its task) and
// "canonical_solution": asks to complete the function.
Result<std::vector<PromptAnswer>> read_mbpp(const std::string& path);

// The users' first turns of OASST1 conversations (Apache-2.0): a JSON list of [number, text], each
// text in Llama 2's form with a system prompt; doubles are left out, and so are turns of more than
// 1,200 bytes. Or MT-bench's (Zheng et al. 2023, Apache-2.0): lines with "turns". No answers: they
// are for the target to give.
Result<std::vector<std::string>> read_user_turns(const std::string& path);

// Articles of Wikitext: such a JSON list, or a plain text file, which is cut at lines that are a
// title of the first order (" = Title = "). Parts of less than 200 bytes are left out.
Result<std::vector<std::string>> read_wikitext(const std::string& path);

}  // namespace outrider
