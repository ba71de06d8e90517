// SPDX-License-Identifier: Apache-2.0
#include "common/text/format/tokenizer_json.h"

#include <algorithm>

#include "common/text/pipeline/utf8.h"

namespace outrider {
namespace {

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

// "a b" or ["a", "b"].
Result<std::pair<std::string, std::string>> parse_merge(const Json& json,
                                                        const std::string& where) {
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return data_loss(where + ": two tokens with one space between expected, found '" +
                       text.substr(0, 80) + "'");
    }
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  if (!json.is_array() || json.size() != 2 || !json[0].is_string() || !json[1].is_string()) {
    return data_loss(where + ": two tokens expected");
  }
  return std::pair(json[0].get<std::string>(), json[1].get<std::string>());
}

Result<std::vector<BpeMerge>> parse_merges(const JsonNode& merges, const Json& vocab) {
  std::vector<BpeMerge> out;
  out.reserve(merges.json.size());
  for (std::size_t rank = 0; rank < merges.json.size(); ++rank) {
    const std::string where = merges.where + "[" + std::to_string(rank) + "]";
    OUTRIDER_ASSIGN_OR_RETURN(const auto pair, parse_merge(merges.json[rank], where));
    TokenId ids[3];
    const std::string names[3] = {pair.first, pair.second, pair.first + pair.second};
    for (int i = 0; i < 3; ++i) {
      const auto found = vocab.find(names[i]);
      if (found == vocab.end()) {
        return data_loss(where + ": the token '" + names[i].substr(0, 80) +
                         "' is not in the vocabulary");
      }
      ids[i] = found->get<TokenId>();  // checked by parse_vocabulary
    }
    out.push_back({ids[0], ids[1], ids[2]});
  }
  return out;
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
  OUTRIDER_ASSIGN_OR_RETURN(spec.merges, parse_merges(merges, vocab.json));
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
    JsonNode step{list.json[i], list.where + "[" + std::to_string(i) + "]"};
    OUTRIDER_ASSIGN_OR_RETURN(const std::string inner, string_field(step, "type"));
    if (inner == "Sequence") {
      return unimplemented(step.where + ": a Sequence inside a Sequence is not supported");
    }
    steps.push_back(std::move(step));
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
  OUTRIDER_ASSIGN_OR_RETURN(PreTokenizerSpec pre, parse_pre_tokenizer(part("pre_tokenizer")));
  parts.pre_tokenizer = PreTokenizer(std::move(pre.steps));
  parts.bpe.byte_level = pre.byte_level;
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
