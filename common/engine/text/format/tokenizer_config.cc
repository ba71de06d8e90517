// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "common/engine/text/format/json_fields.h"
#include "common/engine/text/format/tokenizer_files.h"

namespace outrider {
namespace {

// A token is its text, or an object with its text as `content`.
Result<std::optional<std::string>> token_field(const JsonNode& node, const char* key) {
  std::optional<std::string> none;
  if (!has_value(node, key)) return none;
  if (node.json[key].is_object()) {
    OUTRIDER_ASSIGN_OR_RETURN(const JsonNode token, object_field(node, key));
    OUTRIDER_ASSIGN_OR_RETURN(std::string content, string_field(token, "content"));
    return std::optional(std::move(content));
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::string content, string_field(node, key));
  return std::optional(std::move(content));
}

// One template, a list of named ones, or an object of them.
Status read_chat_templates(const JsonNode& root, std::map<std::string, std::string>& templates) {
  if (!has_value(root, "chat_template")) return {};
  const Json& list = root.json["chat_template"];
  if (list.is_object()) {
    OUTRIDER_ASSIGN_OR_RETURN(const JsonNode named, object_field(root, "chat_template"));
    for (const auto& [name, _] : list.items()) {
      OUTRIDER_ASSIGN_OR_RETURN(templates[name], string_field(named, name.c_str()));
    }
    return {};
  }
  if (!list.is_array()) {
    OUTRIDER_ASSIGN_OR_RETURN(std::string source, string_field(root, "chat_template"));
    if (!source.empty()) templates["default"] = std::move(source);
    return {};
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode entry{list[i], "chat_template[" + std::to_string(i) + "]"};
    OUTRIDER_ASSIGN_OR_RETURN(const std::string name, string_field(entry, "name"));
    OUTRIDER_ASSIGN_OR_RETURN(templates[name], string_field(entry, "template"));
  }
  return {};
}

Result<std::optional<bool>> flag(const JsonNode& root, const char* key) {
  std::optional<bool> none;
  if (!has_value(root, key)) return none;
  OUTRIDER_ASSIGN_OR_RETURN(const bool value, bool_field_or(root, key, false));
  return std::optional(value);
}

Status add_listed_tokens(const JsonNode& root, const char* key, std::vector<std::string>& out) {
  // In newer files this is an object of named tokens, in older ones a list.
  if (!has_value(root, key) || !root.json[key].is_structured()) return {};
  for (const Json& json : root.json[key]) {
    const Json holder = {{"token", json}};
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<std::string> token,
                              token_field({holder, key}, "token"));
    if (token) out.push_back(*token);
  }
  return {};
}

// {"32000": {"content": "<pad>", "special": true, ..}, ..}
Status add_numbered_tokens(const JsonNode& root, std::vector<AddedToken>& out) {
  if (!has_value(root, "added_tokens_decoder")) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const JsonNode tokens, object_field(root, "added_tokens_decoder"));
  for (const auto& [key, json] : tokens.json.items()) {
    const JsonNode node{json, tokens.where + "['" + key.substr(0, 80) + "']"};
    AddedToken token;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0) {
      return data_loss(node.where + ": the key must be a token id");
    }
    OUTRIDER_ASSIGN_OR_RETURN(token.content, string_field(node, "content"));
    OUTRIDER_ASSIGN_OR_RETURN(token.special, bool_field_or(node, "special", false));
    OUTRIDER_ASSIGN_OR_RETURN(token.normalized, bool_field_or(node, "normalized", !token.special));
    OUTRIDER_ASSIGN_OR_RETURN(token.single_word, bool_field_or(node, "single_word", false));
    OUTRIDER_ASSIGN_OR_RETURN(token.lstrip, bool_field_or(node, "lstrip", false));
    OUTRIDER_ASSIGN_OR_RETURN(token.rstrip, bool_field_or(node, "rstrip", false));
    out.push_back(std::move(token));
  }
  return {};
}

}  // namespace

Result<TokenizerConfig> parse_tokenizer_config(std::string_view text) {
  TokenizerConfig config;
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, "tokenizer_config.json"));
  const JsonNode root{json, ""};
  if (!json.is_object()) return wrong_type("tokenizer_config.json", "an object", json);
  OUTRIDER_ASSIGN_OR_RETURN(config.bos_token, token_field(root, "bos_token"));
  OUTRIDER_ASSIGN_OR_RETURN(config.eos_token, token_field(root, "eos_token"));
  for (const char* key : {"unk_token", "pad_token"}) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<std::string> token, token_field(root, key));
    if (token) config.other_special_tokens.push_back(*token);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    OUTRIDER_RETURN_IF_ERROR(add_listed_tokens(root, key, config.other_special_tokens));
  }
  OUTRIDER_RETURN_IF_ERROR(add_numbered_tokens(root, config.added_tokens));
  OUTRIDER_ASSIGN_OR_RETURN(config.add_bos_token, flag(root, "add_bos_token"));
  OUTRIDER_ASSIGN_OR_RETURN(config.add_eos_token, flag(root, "add_eos_token"));
  OUTRIDER_RETURN_IF_ERROR(read_chat_templates(root, config.chat_templates));
  return config;
}

Result<std::map<std::string, std::string>> parse_chat_template_json(std::string_view text) {
  std::map<std::string, std::string> templates;
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, "chat_template.json"));
  if (!json.is_object()) return wrong_type("chat_template.json", "an object", json);
  OUTRIDER_RETURN_IF_ERROR(read_chat_templates({json, ""}, templates));
  return templates;
}

}  // namespace outrider
