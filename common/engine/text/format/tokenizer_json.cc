// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/tokenizer_json.h"

#include <algorithm>

#include "common/engine/text/format/merge_list.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

// Each step may read the whole text.
constexpr std::size_t kMaxSteps = 64;

Status refuse_text(const JsonNode& node, const char* key) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string value, string_field_or(node, key, ""));
  if (value.empty()) return {};
  return unimplemented(node.where + "." + key + " '" + value + "': not supported");
}

Result<std::vector<std::optional<std::string>>> parse_vocabulary(const JsonNode& vocab,
                                                                 std::size_t id_limit) {
  std::vector<std::optional<std::string>> tokens;
  for (const auto& [token, json] : vocab.json.items()) {
    const std::string where = vocab.where + "['" + token.substr(0, 80) + "']";
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId id, id_value(json, where, id_limit));
    const auto index = static_cast<std::size_t>(id);
    if (index >= tokens.size()) tokens.resize(index + 1);
    if (tokens[index]) {
      return data_loss(where + ": id " + std::to_string(id) + " is also that of '" +
                       *tokens[index] + "'");
    }
    tokens[index] = token;
  }
  if (tokens.empty()) return data_loss(vocab.where + ": empty");
  return tokens;
}

// Each is "a b" or ["a", "b"].
Result<std::vector<BpeMerge>> parse_merges(const JsonNode& list,
                                           const std::vector<std::optional<std::string>>& tokens) {
  MergeList merges(tokens);
  for (std::size_t rank = 0; rank < list.json.size(); ++rank) {
    const Json& merge = list.json[rank];
    if (merge.is_string()) {
      OUTRIDER_RETURN_IF_ERROR(merges.add(merge.get_ref<const std::string&>(), list.where));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      OUTRIDER_RETURN_IF_ERROR(merges.add(merge[0].get_ref<const std::string&>(),
                                          merge[1].get_ref<const std::string&>(), list.where));
    } else {
      return data_loss(list.where + "[" + std::to_string(rank) + "]: two tokens expected");
    }
  }
  return merges.take();
}

Status parse_model(const JsonNode& model, std::size_t id_limit, BpeSpec& spec) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, string_field_or(model, "type", "BPE"));
  if (type != "BPE") return unimplemented("model.type '" + type + "': only BPE is supported");
  OUTRIDER_RETURN_IF_ERROR(check_keys(
      model, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
              "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  OUTRIDER_RETURN_IF_ERROR(refuse_text(model, "continuing_subword_prefix"));
  OUTRIDER_RETURN_IF_ERROR(refuse_text(model, "end_of_word_suffix"));
  if (has_value(model, "dropout") && model.json["dropout"] != 0) {
    return unimplemented("model.dropout " + model.json["dropout"].dump() +
                         ": random merges are not supported");
  }
  OUTRIDER_ASSIGN_OR_RETURN(spec.fuse_unknown, bool_field_or(model, "fuse_unk", false));
  OUTRIDER_ASSIGN_OR_RETURN(spec.byte_fallback, bool_field_or(model, "byte_fallback", false));
  OUTRIDER_ASSIGN_OR_RETURN(spec.ignore_merges, bool_field_or(model, "ignore_merges", false));
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode vocab, object_field(model, "vocab"));
  OUTRIDER_ASSIGN_OR_RETURN(spec.tokens, parse_vocabulary(vocab, id_limit));
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode merges, array_field(model, "merges"));
  OUTRIDER_ASSIGN_OR_RETURN(spec.merges, parse_merges(merges, spec.tokens));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string unknown, string_field_or(model, "unk_token", ""));
  if (!unknown.empty()) {
    const auto found = vocab.json.find(unknown);
    if (found == vocab.json.end()) {
      return data_loss("model.unk_token '" + unknown + "' is not in the vocabulary");
    }
    spec.unknown = found->get<TokenId>();
  }
  return {};
}

Result<AddedToken> parse_added_token(const JsonNode& node, std::size_t id_limit) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(
      node, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  if (!node.json.contains("id")) return data_loss(node.where + ".id: missing");
  OUTRIDER_ASSIGN_OR_RETURN(token.id, id_value(node.json["id"], node.where + ".id", id_limit));
  OUTRIDER_ASSIGN_OR_RETURN(token.content, string_field(node, "content"));
  OUTRIDER_ASSIGN_OR_RETURN(token.special, bool_field_or(node, "special", false));
  OUTRIDER_ASSIGN_OR_RETURN(token.normalized, bool_field_or(node, "normalized", !token.special));
  OUTRIDER_ASSIGN_OR_RETURN(token.single_word, bool_field_or(node, "single_word", false));
  OUTRIDER_ASSIGN_OR_RETURN(token.lstrip, bool_field_or(node, "lstrip", false));
  OUTRIDER_ASSIGN_OR_RETURN(token.rstrip, bool_field_or(node, "rstrip", false));
  return token;
}

Status parse_added_tokens(const JsonNode& root, std::size_t id_limit, TokenizerParts& parts) {
  if (!has_value(root, "added_tokens")) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode list, array_field(root, "added_tokens"));
  for (std::size_t i = 0; i < list.json.size(); ++i) {
    const JsonNode node{list.json[i], "added_tokens[" + std::to_string(i) + "]"};
    OUTRIDER_ASSIGN_OR_RETURN(AddedToken token, parse_added_token(node, id_limit));
    parts.added_tokens.push_back(std::move(token));
  }
  return {};
}

std::size_t size_of(const JsonNode& node, const char* outer, const char* inner) {
  const Json* json = &node.json;
  for (const char* key : {outer, inner}) {
    if (key == nullptr) continue;
    const auto found = json->is_object() ? json->find(key) : json->end();
    if (found == json->end()) return 0;
    json = &*found;
  }
  return json->size();
}

}  // namespace

Status unknown_type(const JsonNode& node, const std::string& type) {
  return unimplemented(node.where + ": type '" + type.substr(0, 80) + "' is not supported");
}

Status check_one_character(const std::string& text, const std::string& where) {
  if (!text.empty() && utf8_length(text[0]) == text.size()) return {};
  return data_loss(where + ": one character expected, found '" + text.substr(0, 80) + "'");
}

Result<std::vector<JsonNode>> steps_of(const JsonNode& node, const char* list_key) {
  std::vector<JsonNode> steps;
  if (node.json.is_null()) return steps;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, string_field(node, "type"));
  if (type != "Sequence") {
    steps.push_back(node);
    return steps;
  }
  OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"type", list_key}));
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode list, array_field(node, list_key));
  for (std::size_t i = 0; i < list.json.size(); ++i) {
    const JsonNode step{list.json[i], list.where + "[" + std::to_string(i) + "]"};
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<JsonNode> inner, steps_of(step, list_key));
    for (const JsonNode& one : inner) steps.push_back(one);
    if (steps.size() > kMaxSteps) {
      return unimplemented(list.where + ": more than " + std::to_string(kMaxSteps) +
                           " steps are not supported");
    }
  }
  return steps;
}

Result<SplitPattern> parse_pattern(const JsonNode& node) {
  OUTRIDER_RETURN_IF_ERROR(check_keys(node, {"String", "Regex"}));
  if (has_value(node, "Regex")) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string pattern, string_field(node, "Regex"));
    return SplitPattern::compile(pattern);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, string_field(node, "String"));
  return SplitPattern::literal(text);
}

Result<TokenizerParts> parse_tokenizer_json(std::string_view text) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, "tokenizer.json"));
  const JsonNode root{json, ""};
  OUTRIDER_RETURN_IF_ERROR(
      check_keys(root, {"version", "truncation", "padding", "added_tokens", "normalizer",
                        "pre_tokenizer", "post_processor", "decoder", "model"}));
  const std::size_t id_limit =
      id_limit_of(size_of(root, "model", "vocab") + size_of(root, "added_tokens", nullptr));
  const auto part = [&](const char* key) {
    static const Json kNull;
    const auto found = json.find(key);
    return JsonNode{found == json.end() ? kNull : *found, key};
  };
  TokenizerParts parts;
  OUTRIDER_ASSIGN_OR_RETURN(parts.normalizer, parse_normalizer(part("normalizer")));
  OUTRIDER_ASSIGN_OR_RETURN(parts.pre_tokenizer, parse_pre_tokenizer(part("pre_tokenizer")));
  OUTRIDER_ASSIGN_OR_RETURN(parts.decoder, parse_decoder(part("decoder")));
  OUTRIDER_RETURN_IF_ERROR(parse_model(part("model"), id_limit, parts.bpe));
  OUTRIDER_RETURN_IF_ERROR(parse_added_tokens(root, id_limit, parts));
  OUTRIDER_ASSIGN_OR_RETURN(PostProcessorSpec post,
                            parse_post_processor(part("post_processor"), id_limit));
  parts.prefix = std::move(post.prefix);
  parts.suffix = std::move(post.suffix);
  return parts;
}

}  // namespace outrider
