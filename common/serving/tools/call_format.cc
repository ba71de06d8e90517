// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/call_format.h"

#include <algorithm>
#include <array>

namespace outrider {
namespace {

constexpr std::array kFormats = {
    // Llama 3.1 to 3.3; before hermes, which reads its calls too
    CallFormat{.name = "llama3_json", .open = "<|python_tag|>", .bare = true},
    // Hermes 2 and 3, Qwen 2.5 and 3, Granite 4; Qwen 2.5 Coder leaves the marks out
    CallFormat{.name = "hermes", .open = "<tool_call>", .close = "</tool_call>", .left_out = true},
    // a list of objects before version 11, name[ARGS]{..} since
    CallFormat{
        .name = "mistral", .open = "[TOOL_CALLS]", .name_end = "[ARGS]", .id_mark = "[CALL_ID]"},
    // Granite 3
    CallFormat{.name = "granite", .open = "<|tool_call|>"},
    // Functionary 3.1, and Llama 3.1 where a prompt asks for it
    CallFormat{
        .name = "functionary_v3_1", .open = "<function=", .name_end = ">", .close = "</function>"},
    CallFormat{.name = "functionary_v3_2",
               .open = ">>>",
               .name_end = "\n",
               .bare = true,
               .text_name = "all"},
    // LFM2
    CallFormat{.name = "lfm2",
               .arguments = CallArguments::kPython,
               .open = "<|tool_call_start|>",
               .close = "<|tool_call_end|>"},
    // Llama 3.2 and 4 where a prompt asks for it
    CallFormat{.name = "pythonic",
               .arguments = CallArguments::kPython,
               .open = "<|python_start|>",
               .close = "<|python_end|>",
               .bare = true},
    // Apriel, MiniMax M1
    CallFormat{.name = "apriel", .open = "<tool_calls>", .close = "</tool_calls>"},
    CallFormat{.name = "nemotron_v2", .open = "<TOOLCALL>", .close = "</TOOLCALL>"},
    CallFormat{.name = "cohere", .open = "<|START_ACTION|>", .close = "<|END_ACTION|>"},
    CallFormat{.name = "deepseek_v3",
               .section = "<｜tool▁calls▁begin｜>",
               .section_end = "<｜tool▁calls▁end｜>",
               .open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
               .name_end = "\n```json\n",
               .close = "\n```<｜tool▁call▁end｜>"},
    CallFormat{.name = "deepseek_v31",
               .section = "<｜tool▁calls▁begin｜>",
               .section_end = "<｜tool▁calls▁end｜>",
               .open = "<｜tool▁call▁begin｜>",
               .name_end = "<｜tool▁sep｜>",
               .close = "<｜tool▁call▁end｜>"},
    CallFormat{.name = "kimi_k2",
               .section = "<|tool_calls_section_begin|>",
               .section_end = "<|tool_calls_section_end|>",
               .open = "<|tool_call_begin|>",
               .name_end = "<|tool_call_argument_begin|>",
               .close = "<|tool_call_end|>",
               .name_prefix = "functions.",
               .index_mark = ":"},
    // Qwen 3 Coder, Qwen 3.5, Nemotron 3
    CallFormat{.name = "qwen3_coder",
               .arguments = CallArguments::kTagged,
               .section = "<tool_call>",
               .section_end = "</tool_call>",
               .open = "<function=",
               .name_end = ">",
               .close = "</function>",
               .key = "<parameter=",
               .key_end = ">",
               .value_end = "</parameter>"},
    CallFormat{.name = "seed_oss",
               .arguments = CallArguments::kTagged,
               .section = "<seed:tool_call>",
               .section_end = "</seed:tool_call>",
               .open = "<function=",
               .name_end = ">",
               .close = "</function>",
               .key = "<parameter=",
               .key_end = ">",
               .value_end = "</parameter>"},
    CallFormat{.name = "minimax_m2",
               .arguments = CallArguments::kTagged,
               .section = "<minimax:tool_call>",
               .section_end = "</minimax:tool_call>",
               .open = "<invoke name=\"",
               .name_end = "\">",
               .close = "</invoke>",
               .key = "<parameter name=\"",
               .key_end = "\">",
               .value_end = "</parameter>"},
    CallFormat{.name = "glm45",
               .arguments = CallArguments::kTagged,
               .open = "<tool_call>",
               .close = "</tool_call>",
               .key = "<arg_key>",
               .key_end = "</arg_key>",
               .value = "<arg_value>",
               .value_end = "</arg_value>"},
};

}  // namespace

std::vector<std::string_view> CallFormat::marks() const {
  std::vector<std::string_view> all = {section, section_end, open,  name_end,  close,
                                       key,     key_end,     value, value_end, id_mark};
  std::erase(all, std::string_view());
  return all;
}

std::span<const CallFormat> call_formats() {
  return kFormats;
}

const CallFormat* find_call_format(std::string_view name) {
  const auto* const found = std::ranges::find(kFormats, name, &CallFormat::name);
  return found == kFormats.end() ? nullptr : found;
}

std::string call_format_names() {
  std::string names;
  for (const CallFormat& format : kFormats) {
    names.append(names.empty() ? "" : ", ").append(format.name);
  }
  return names;
}

}  // namespace outrider
