// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/json_fields.h"

#include <algorithm>

namespace outrider {
namespace {

const Json& field(const JsonNode& node, const char* key) {
  static const Json kNull;
  if (!node.json.is_object()) return kNull;
  const auto found = node.json.find(key);
  return found == node.json.end() ? kNull : *found;
}

std::string path(const JsonNode& node, std::string_view key) {
  return node.where.empty() ? std::string(key) : node.where + "." + std::string(key);
}

}  // namespace

Status wrong_type(const std::string& where, std::string_view expected, const Json& found) {
  return data_loss(where + ": " + std::string(expected) + " expected, found " + found.type_name());
}

Status check_keys(const JsonNode& node, std::initializer_list<std::string_view> known) {
  if (!node.json.is_object()) return wrong_type(node.where, "an object", node.json);
  for (const auto& [key, value] : node.json.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return unimplemented(path(node, key.substr(0, 80)) + ": not supported");
    }
  }
  return {};
}

bool has_value(const JsonNode& node, const char* key) {
  return !field(node, key).is_null();
}

Result<JsonNode> object_field(const JsonNode& node, const char* key) {
  const Json& json = field(node, key);
  if (!json.is_object()) return wrong_type(path(node, key), "an object", json);
  return JsonNode{json, path(node, key)};
}

Result<JsonNode> array_field(const JsonNode& node, const char* key) {
  const Json& json = field(node, key);
  if (!json.is_array()) return wrong_type(path(node, key), "a list", json);
  return JsonNode{json, path(node, key)};
}

Result<std::string> string_field(const JsonNode& node, const char* key) {
  const Json& json = field(node, key);
  if (!json.is_string()) return wrong_type(path(node, key), "a text", json);
  return json.get_ref<const std::string&>();
}

Result<std::string> string_field_or(const JsonNode& node, const char* key, std::string value) {
  if (!has_value(node, key)) return value;
  return string_field(node, key);
}

Result<bool> bool_field_or(const JsonNode& node, const char* key, bool value) {
  const Json& json = field(node, key);
  if (json.is_null()) return value;
  if (!json.is_boolean()) return wrong_type(path(node, key), "true or false", json);
  return json.get<bool>();
}

Result<TokenId> id_value(const Json& json, const std::string& where, std::size_t limit) {
  if (!json.is_number_integer()) return wrong_type(where, "a token id", json);
  const bool in_range = json.is_number_unsigned() && json.get<std::uint64_t>() < limit;
  if (!in_range) {
    return data_loss(where + ": id " + json.dump() +
                     " is out of range; this file's ids are below " + std::to_string(limit));
  }
  return static_cast<TokenId>(json.get<std::uint64_t>());
}

}  // namespace outrider
