// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/tokenizer_json.h"

namespace outrider {
namespace {

std::optional<UnicodeForm> unicode_form_of(const std::string& type) {
  if (type == "NFC") return UnicodeForm::kNfc;
  if (type == "NFD") return UnicodeForm::kNfd;
  if (type == "NFKC") return UnicodeForm::kNfkc;
  if (type == "NFKD") return UnicodeForm::kNfkd;
  return std::nullopt;
}

Result<ReplaceStep> parse_replace(const JsonNode& node) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", "pattern", "content"}));
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode pattern_node, object_field(node, "pattern"));
  OUTRIDER_ASSIGN_OR_RETURN(SplitPattern pattern, parse_pattern(pattern_node));
  OUTRIDER_ASSIGN_OR_RETURN(std::string content, string_field(node, "content"));
  return ReplaceStep{std::move(pattern), std::move(content)};
}

Result<NormalizerStep> parse_normalizer_step(const JsonNode& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, string_field(node, "type"));
  if (const auto form = unicode_form_of(type)) {
    OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type"}));
    return NormalizerStep(UnicodeFormStep{*form});
  }
  if (type == "Lowercase") {
    OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type"}));
    return NormalizerStep(LowercaseStep{});
  }
  if (type == "Strip") {
    OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", "strip_left", "strip_right"}));
    OUTRIDER_ASSIGN_OR_RETURN(const bool left, bool_field_or(node, "strip_left", true));
    OUTRIDER_ASSIGN_OR_RETURN(const bool right, bool_field_or(node, "strip_right", true));
    return NormalizerStep(StripStep{left, right});
  }
  if (type == "Prepend") {
    OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", "prepend"}));
    OUTRIDER_ASSIGN_OR_RETURN(std::string text, string_field(node, "prepend"));
    return NormalizerStep(PrependStep{std::move(text)});
  }
  if (type == "Replace") {
    OUTRIDER_ASSIGN_OR_RETURN(ReplaceStep step, parse_replace(node));
    return NormalizerStep(std::move(step));
  }
  return unknown_type(node, type);
}

// Returns the number of the step in the fixed order of a DecoderSpec.
Result<int> add_decoder_step(const JsonNode& node, DecoderSpec& spec) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, string_field(node, "type"));
  if (type == "Replace") {
    OUTRIDER_ASSIGN_OR_RETURN(ReplaceStep step, parse_replace(node));
    spec.replaces.push_back(std::move(step));
    return 1;
  }
  if (type == "ByteFallback" || type == "Fuse") {
    OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type"}));
    if (type == "ByteFallback") spec.byte_fallback = true;
    return type == "ByteFallback" ? 2 : 3;
  }
  if (type != "Strip") return unknown_type(node, type);
  OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", "content", "start", "stop"}));
  OUTRIDER_ASSIGN_OR_RETURN(spec.strip, string_field(node, "content"));
  OUTRIDER_RETURN_IF_ERROR(check_one_character(spec.strip, node.where + ".content"));
  const Json start = node.json.value("start", Json());
  const Json stop = node.json.value("stop", Json());
  constexpr int kMaxToStrip = 1 << 20;
  if (!start.is_number_unsigned() || start > kMaxToStrip || stop != 0) {
    return unimplemented(node.where + ": Strip with start " + start.dump() + " and stop " +
                         stop.dump() + " is not supported; stop must be 0");
  }
  spec.strip_left = start.get<int>();
  return 4;
}

// The ids of one special token that a template names.
Result<std::vector<TokenId>> template_ids(const JsonNode& post, const std::string& name,
                                          std::size_t id_limit) {
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode tokens, object_field(post, "special_tokens"));
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode token, object_field(tokens, name.c_str()));
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode list, array_field(token, "ids"));
  std::vector<TokenId> ids;
  for (const Json& json : list.json) {
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId id, id_value(json, list.where, id_limit));
    ids.push_back(id);
  }
  return ids;
}

Status add_template(const JsonNode& node, std::size_t id_limit, PostProcessorSpec& spec) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", "single", "pair", "special_tokens"}));
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode single, array_field(node, "single"));
  bool text_seen = false;
  for (std::size_t i = 0; i < single.json.size(); ++i) {
    const JsonNode piece{single.json[i], single.where + "[" + std::to_string(i) + "]"};
    OUTRIDER_RETURN_IF_ERROR(check_keys(piece, {"SpecialToken", "Sequence"}));
    if (has_value(piece, "Sequence")) {
      if (text_seen) return unimplemented(piece.where + ": the text must not appear twice");
      text_seen = true;
      continue;
    }
    OUTRIDER_ASSIGN_OR_RETURN(const JsonNode special, object_field(piece, "SpecialToken"));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string name, string_field(special, "id"));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, template_ids(node, name, id_limit));
    auto& target = text_seen ? spec.suffix : spec.prefix;
    target.insert(target.end(), ids.begin(), ids.end());
  }
  if (!text_seen) return data_loss(single.where + ": no place for the text");
  return {};
}

}  // namespace

Result<Normalizer> parse_normalizer(const JsonNode& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<JsonNode> nodes, steps_of(node, "normalizers"));
  std::vector<NormalizerStep> steps;
  for (const JsonNode& step_node : nodes) {
    OUTRIDER_ASSIGN_OR_RETURN(NormalizerStep step, parse_normalizer_step(step_node));
    steps.push_back(std::move(step));
  }
  return Normalizer(std::move(steps));
}

Result<DecoderSpec> parse_decoder(const JsonNode& node) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<JsonNode> nodes, steps_of(node, "decoders"));
  if (nodes.empty()) return unimplemented("decoder: missing, which is not supported");
  DecoderSpec spec;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string first, string_field(nodes[0], "type"));
  if (nodes.size() == 1 && first == "ByteLevel") {
    OUTRIDER_RETURN_IF_ERROR(
        check_keys(nodes[0], {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    spec.byte_level = true;
    return spec;
  }
  if (nodes.size() == 1 && first == "Metaspace") {
    OUTRIDER_ASSIGN_OR_RETURN(const Metaspace metaspace, parse_metaspace(nodes[0]));
    spec.marker = metaspace.spaces.marker;
    spec.drop_first_markers = metaspace.spaces.prepend != SpaceStep::Prepend::kNever;
    return spec;
  }
  int last = 0;
  for (const JsonNode& step : nodes) {
    OUTRIDER_ASSIGN_OR_RETURN(const int rank, add_decoder_step(step, spec));
    const bool in_order = rank > last || (rank == 1 && last == 1);
    if (!in_order || (rank == 4 && last != 3)) {
      return unimplemented(step.where +
                           ": not supported in this place; the order is Replace, "
                           "ByteFallback, Fuse, Strip");
    }
    last = rank;
  }
  return spec;
}

Result<PostProcessorSpec> parse_post_processor(const JsonNode& node, std::size_t id_limit) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<JsonNode> nodes, steps_of(node, "processors"));
  PostProcessorSpec spec;
  for (const JsonNode& step : nodes) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string type, string_field(step, "type"));
    if (type == "TemplateProcessing") {
      PostProcessorSpec inner;
      OUTRIDER_RETURN_IF_ERROR(add_template(step, id_limit, inner));
      spec.prefix.insert(spec.prefix.begin(), inner.prefix.begin(), inner.prefix.end());
      spec.suffix.insert(spec.suffix.end(), inner.suffix.begin(), inner.suffix.end());
    } else if (type != "ByteLevel") {  // which changes offsets but no ids
      return unknown_type(step, type);
    }
  }
  return spec;
}

}  // namespace outrider
