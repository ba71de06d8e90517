// How a program reads the answers of its model, and the flags by which its operator says so.
//
// Thread rule: values; the flags on the main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/enum_names.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/program.h"
#include "common/serving/tools/call_format.h"

namespace outrider {

// llama.cpp's names.
enum class ReasoningFormat : std::uint8_t {
  kAuto,  // reasoning stands apart from the text, as DeepSeek's service gives it
  kNone,  // it stays in the text
};

template <>
inline constexpr auto enum_names<ReasoningFormat> = std::to_array<EnumName<ReasoningFormat>>(
    {{ReasoningFormat::kAuto, "auto"}, {ReasoningFormat::kNone, "none"}});

struct AnswerReading {
  std::string tool_call_parser = {};  // of call_formats(); empty: the chat template decides
  ReasoningFormat reasoning = ReasoningFormat::kAuto;  // unless a request says otherwise
};

inline void add_reading_flags(CLI::App& command, AnswerReading& reading, const std::string& group) {
  std::vector<std::string> names;
  for (const CallFormat& format : call_formats()) names.emplace_back(format.name);
  command
      .add_option("--tool-call-parser", reading.tool_call_parser,
                  "The form in which the model writes tool calls: " + call_format_names() +
                      " [the form of its chat template]")
      ->check(CLI::IsMember(names).description(""))  // the list stands above
      ->group(group + kRarelyNeeded);
  add_choice(
      command, "--reasoning-format", reading.reasoning,
      "Where a chat's answer has what the model thinks first (<think>): auto, apart from the "
      "text as reasoning_content; none, in the text")
      ->group(group + kRarelyNeeded);
}

}  // namespace outrider
