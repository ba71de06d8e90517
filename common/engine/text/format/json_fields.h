// Reads typed fields of JSON objects from untrusted files.
//
// Each function names the field by `where` + key in its error. Unknown keys are errors too: they
// may be unsupported features.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

// An object, and its path in the file, such as "pre_tokenizer[1]".
struct JsonNode {
  const Json& json;
  std::string where;
};

// Ok if the node is an object whose keys are all in `known`.
Status check_keys(const JsonNode& node, std::initializer_list<std::string_view> known);

bool has_value(const JsonNode& node, const char* key);  // present and not null

Result<JsonNode> object_field(const JsonNode& node, const char* key);
Result<JsonNode> array_field(const JsonNode& node, const char* key);
Result<std::string> string_field(const JsonNode& node, const char* key);
// Returns `value` if the key is absent or null.
Result<std::string> string_field_or(const JsonNode& node, const char* key, std::string value);
Result<bool> bool_field_or(const JsonNode& node, const char* key, bool value);

// A token id in [0, limit).
Result<TokenId> id_value(const Json& json, const std::string& where, std::size_t limit);

Status wrong_type(const std::string& where, std::string_view expected, const Json& found);

}  // namespace outrider
