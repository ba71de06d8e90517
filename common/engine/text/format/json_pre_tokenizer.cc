// The pre-tokenizers of tokenizer.json, built from our three kinds of step.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "common/engine/text/format/tokenizer_json.h"
#include "common/engine/text/pipeline/known_patterns.h"

namespace outrider {
namespace {

using Steps = std::vector<PreTokenizerStep>;

constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kBehaviors = {{
    {"Removed", SplitBehavior::kRemoved},
    {"Isolated", SplitBehavior::kIsolated},
    {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
    {"MergedWithNext", SplitBehavior::kMergedWithNext},
    {"Contiguous", SplitBehavior::kContiguous},
}};

constexpr std::array<std::pair<std::string_view, SpaceStep::Prepend>, 3> kPrependSchemes = {{
    {"always", SpaceStep::Prepend::kAlways},
    {"first", SpaceStep::Prepend::kFirst},
    {"never", SpaceStep::Prepend::kNever},
}};

// The value that a field's text means; `absent` is the text if there is no field.
template <typename Value, std::size_t kCount>
Result<Value> named_value(const JsonNode& node, const char* key, const char* absent,
                          const std::array<std::pair<std::string_view, Value>, kCount>& values) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, string_field_or(node, key, absent));
  std::string known;
  for (const auto& [name, value] : values) {
    if (name == text) return value;
    known.append(known.empty() ? "" : ", ").append(name);
  }
  return unimplemented(node.where + "." + key + " '" + text.substr(0, 80) +
                       "' is not supported; known are " + known);
}

Result<SplitBehavior> behavior_of(const JsonNode& node) {
  return named_value(node, "behavior", "Isolated", kBehaviors);
}

Status add_cut(std::string_view pattern, SplitBehavior behavior, Steps& steps) {
  OUTRIDER_ASSIGN_OR_RETURN(SplitPattern compiled, SplitPattern::compile(pattern));
  steps.emplace_back(SplitStep{std::move(compiled), behavior});
  return {};
}

Status add_split(const JsonNode& node, Steps& steps) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", "pattern", "behavior", "invert"}));
  OUTRIDER_ASSIGN_OR_RETURN(const SplitBehavior behavior, behavior_of(node));
  OUTRIDER_ASSIGN_OR_RETURN(const bool invert, bool_field_or(node, "invert", false));
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode pattern_node, object_field(node, "pattern"));
  OUTRIDER_ASSIGN_OR_RETURN(SplitPattern pattern, parse_pattern(pattern_node));
  steps.emplace_back(SplitStep{std::move(pattern), behavior, invert});
  return {};
}

Status add_digits(const JsonNode& node, Steps& steps) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", "individual_digits"}));
  OUTRIDER_ASSIGN_OR_RETURN(const bool each, bool_field_or(node, "individual_digits", false));
  return add_cut(each ? kDigitPattern : kDigitsPattern, SplitBehavior::kIsolated, steps);
}

Status add_punctuation(const JsonNode& node, Steps& steps) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", "behavior"}));
  OUTRIDER_ASSIGN_OR_RETURN(const SplitBehavior behavior, behavior_of(node));
  return add_cut(kPunctuationPattern, behavior, steps);
}

Status add_metaspace(const JsonNode& node, Steps& steps) {
  OUTRIDER_ASSIGN_OR_RETURN(const Metaspace metaspace, parse_metaspace(node));
  steps.emplace_back(metaspace.spaces);
  if (!metaspace.split) return {};
  OUTRIDER_ASSIGN_OR_RETURN(SplitPattern mark, SplitPattern::literal(metaspace.spaces.marker));
  steps.emplace_back(SplitStep{std::move(mark), SplitBehavior::kMergedWithNext});
  return {};
}

Status add_byte_level(const JsonNode& node, Steps& steps) {
  OUTRIDER_RETURN_IF_ERROR(
      check_keys(node, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  OUTRIDER_ASSIGN_OR_RETURN(const bool prefix, bool_field_or(node, "add_prefix_space", true));
  OUTRIDER_ASSIGN_OR_RETURN(const bool use_regex, bool_field_or(node, "use_regex", true));
  if (prefix) steps.emplace_back(SpaceStep{.marker = " "});
  if (use_regex) {
    OUTRIDER_RETURN_IF_ERROR(add_cut(kGpt2Pattern, SplitBehavior::kIsolated, steps));
  }
  steps.emplace_back(ByteCharactersStep{});
  return {};
}

}  // namespace

Result<Metaspace> parse_metaspace(const JsonNode& node) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(
      node, {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
  Metaspace metaspace;
  OUTRIDER_ASSIGN_OR_RETURN(metaspace.spaces.marker, string_field(node, "replacement"));
  OUTRIDER_RETURN_IF_ERROR(
      check_one_character(metaspace.spaces.marker, node.where + ".replacement"));
  OUTRIDER_ASSIGN_OR_RETURN(metaspace.split, bool_field_or(node, "split", true));
  // Files have either field, or both.
  OUTRIDER_ASSIGN_OR_RETURN(const bool add, bool_field_or(node, "add_prefix_space", true));
  OUTRIDER_ASSIGN_OR_RETURN(
      metaspace.spaces.prepend,
      named_value(node, "prepend_scheme", add ? "always" : "never", kPrependSchemes));
  if (!add && metaspace.spaces.prepend != SpaceStep::Prepend::kNever) {
    return data_loss(node.where + ": add_prefix_space false contradicts prepend_scheme " +
                     node.json["prepend_scheme"].dump());
  }
  return metaspace;
}

Result<PreTokenizer> parse_pre_tokenizer(const JsonNode& node) {
  using Add = Status (*)(const JsonNode&, Steps&);
  constexpr std::array<std::pair<std::string_view, Add>, 5> kKinds = {{
      {"ByteLevel", add_byte_level},
      {"Digits", add_digits},
      {"Metaspace", add_metaspace},
      {"Punctuation", add_punctuation},
      {"Split", add_split},
  }};
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<JsonNode> nodes, steps_of(node, "pretokenizers"));
  Steps steps;
  for (const JsonNode& step : nodes) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string type, string_field(step, "type"));
    const auto* const kind =
        std::ranges::find(kKinds, std::string_view(type), &std::pair<std::string_view, Add>::first);
    if (kind == kKinds.end()) return unknown_type(step, type);
    OUTRIDER_RETURN_IF_ERROR(kind->second(step, steps));
  }
  return PreTokenizer(std::move(steps));
}

}  // namespace outrider
