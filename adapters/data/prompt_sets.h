// Public prompt collections as prompts and answers, or as plain text, for training.
//
// Thread rule: free functions. Errors: those of reading and parsing; they name file and line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adapters/data/robot_scene.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"

namespace outrider {

struct PromptAnswer {
  std::string prompt, answer;
};

// GSM8K (Cobbe et al. 2021, MIT): the problems of one split of train.jsonl, in the file's order,
// without_annotations(). The last kGsm8kHeldOut problems are never trained on.
inline constexpr std::size_t kGsm8kHeldOut = 300;
Result<std::vector<PromptAnswer>> read_gsm8k(const std::string& path, Split split);

// The answer without calculator annotations ("<<48/2=24>>"): these are notes for a tool, and the
// rest reads as text.
std::string without_annotations(const std::string& answer);

// The part of a task that a prompt shows: the function's head with what it does, which is to be
// completed; what it does alone; or the tests that it has to pass.
enum class MbppForm : std::uint8_t { kComplete, kWrite, kTests };

template <>
inline constexpr auto enum_names<MbppForm> = std::to_array<EnumName<MbppForm>>(
    {{MbppForm::kComplete, "complete"}, {MbppForm::kWrite, "write"}, {MbppForm::kTests, "tests"}});

// MBPP (Austin et al. 2021, CC BY 4.0) as lines of "prompt" (a function's head with its task),
// "canonical_solution" and, for kTests, "test" (a function that asserts). Each task in each form,
// task by task.
Result<std::vector<PromptAnswer>> read_mbpp(const std::string& path,
                                            std::span<const MbppForm> forms);

// The users' first turns, without answers, which the target shall write. `path` holds either
// OASST1 conversations (Apache-2.0), a JSON list of [number, text] with each text in Llama 2's form
// with a system prompt; or MT-bench's lines with "turns" (Zheng et al. 2023, Apache-2.0). Of
// OASST1, repetitions and turns of more than 1,200 bytes are left out.
Result<std::vector<std::string>> read_user_turns(const std::string& path);

// Articles of Wikitext: a JSON list of [number, text], or a plain text file. Plain text is split
// at titles of the first order (" = Title = "), and parts of less than 200 bytes are left out.
Result<std::vector<std::string>> read_wikitext(const std::string& path);

}  // namespace outrider
