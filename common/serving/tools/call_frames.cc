// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/call_frames.h"

#include <utility>

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Marks that are words of XML stand on lines of their own, as templates write them.
std::string on_own_line(std::string_view mark, bool opens) {
  const std::string text(mark);
  if (!mark.starts_with('<') || !mark.ends_with('>') || mark.starts_with("<|")) return text;
  return opens ? text + "\n" : "\n" + text;
}

OrderedJson any_object() {
  return {{"type", "object"}};
}

OrderedJson schema_of(const Tool& tool) {
  if (!tool.parameters.is_null()) return tool.parameters;
  return {{"type", "object"}, {"additionalProperties", false}};
}

OrderedJson frame_of(const CallFormat& format, const Tool& tool, const OrderedJson& schema) {
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

// Whether calls may follow each other without anything around them all.
bool stand_alone(const CallFormat& format) {
  return !format.open.empty() && !format.bare && format.section.empty() &&
         format.arguments == CallArguments::kJson;
}

}  // namespace

Result<std::string> call_frames(const CallFormat& format, const Tools& tools,
                                const CallRule& rule) {
  if (format.arguments != CallArguments::kJson) {
    return unimplemented("the model's form of calls, " + std::string(format.name) +
                         ", writes no JSON, so answers with calls are held to no form. Remedy: " +
                         (rule.instead.empty() ? "tool_choice auto" : "a form, or tools"));
  }
  auto frames = OrderedJson::array();
  for (const Tool& tool : tools) {
    if (!rule.only.empty() && tool.name != rule.only) continue;
    const bool is_free = rule.only_strict && !tool.strict;
    frames.push_back(frame_of(format, tool, is_free ? any_object() : schema_of(tool)));
  }
  OrderedJson form = {{"frames", std::move(frames)}};
  if (rule.several && stand_alone(format) && !format.close.empty()) form["several"] = true;
  if (!rule.instead.empty()) form["instead"] = OrderedJson::parse(rule.instead, nullptr, false);
  return form.dump();
}

std::optional<std::string> call_frames_in_text(const CallFormat& format, const Tools& tools,
                                               bool several) {
  if (!stand_alone(format)) return std::nullopt;
  const Result<std::string> frames = call_frames(format, tools, {.only_strict = true});
  OrderedJson form = OrderedJson::parse(*frames);
  form["trigger"] = format.open;
  form["several"] = several;
  return form.dump();
}

}  // namespace outrider
