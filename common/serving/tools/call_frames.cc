// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/call_frames.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Marks that are words of XML stand on lines of their own, as templates write them.
std::string on_own_line(std::string_view mark, bool opens) {
  const std::string text(mark);
  if (!mark.starts_with('<') || !mark.ends_with('>') || mark.starts_with("<|")) return text;
  return opens ? text + "\n" : "\n" + text;
}

OrderedJson frame_of(const CallFormat& format, const Tool& tool) {
  const OrderedJson nothing = {{"type", "object"}, {"additionalProperties", false}};
  const OrderedJson& schema = tool.parameters.is_null() ? nothing : tool.parameters;
  const std::string section(format.section), section_end(format.section_end);
  if (!format.name_end.empty()) {
    const std::string index = format.index_mark.empty() ? "" : std::string(format.index_mark) + "0";
    return {section + std::string(format.open) + std::string(format.name_prefix) + tool.name +
                index + std::string(format.name_end),
            schema, std::string(format.close) + section_end};
  }
  // A call may begin the answer where it needs no mark, which may be a token of its own.
  const std::string open = format.bare ? "" : on_own_line(format.open, true);
  const char* const key = format.bare ? "parameters" : "arguments";
  return {section + open + "{\"name\": " + OrderedJson(tool.name).dump() + ", \"" + key + "\": ",
          schema, "}" + on_own_line(format.close, false) + section_end};
}

}  // namespace

Result<std::string> call_frames(const CallFormat& format, const Tools& tools,
                                std::string_view only) {
  if (format.arguments != CallArguments::kJson) {
    return unimplemented(
        "the model's form of calls, " + std::string(format.name) +
        ", writes no JSON, so a call cannot be required. Remedy: tool_choice auto");
  }
  auto frames = OrderedJson::array();
  for (const Tool& tool : tools) {
    if (only.empty() || tool.name == only) frames.push_back(frame_of(format, tool));
  }
  return frames.dump();
}

}  // namespace outrider
