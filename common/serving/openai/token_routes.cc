// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/token_routes.h"

#include <optional>
#include <string>

#include "common/base/json.h"
#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/token_ids.h"
#include "common/serving/conversation/conversation.h"
#include "common/serving/http/error_response.h"
#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/routes.h"

namespace outrider {
namespace {

struct TokenizeRequest {
  std::optional<std::string> text;
  RawOptions raw = {.add_special = false};
  bool with_pieces = false;
};

Status read_text(const std::string& key, const Json& value, std::optional<std::string>& text) {
  if (!value.is_string()) return wrong(key, "a text", value);
  if (text && *text != value.get_ref<const std::string&>()) {
    return wrong(key, "the same text as its other name: 'content' and 'prompt' are one field");
  }
  text = value.get<std::string>();
  return {};
}

Status read_field(const std::string& key, const Json& value, TokenizeRequest& request) {
  if (value.is_null() || key == "model") return {};
  if (key == "content" || key == "prompt") return read_text(key, value, request.text);
  if (key == "add_special" || key == "add_special_tokens") {
    return read_bool(value, key, request.raw.add_special);
  }
  if (key == "parse_special") return read_bool(value, key, request.raw.parse_special);
  if (key == "with_pieces") return read_bool(value, key, request.with_pieces);
  return unsupported(key);
}

Result<TokenizeRequest> parse_tokenize(const std::string& body) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_body(body));
  TokenizeRequest request;
  for (const auto& [key, value] : json.items()) {
    OUTRIDER_RETURN_IF_ERROR(read_field(key, value, request));
  }
  if (!request.text) return missing("content");
  return request;
}

// Bytes that are no whole characters are a list of numbers, as in llama.cpp.
Result<Json> piece_of(const Tokenizer& tokenizer, TokenId id) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string_view bytes, tokenizer.token_bytes(id));
  if (is_utf8(bytes)) return Json(bytes);
  Json numbers = Json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return numbers;
}

Result<Json> tokenize(const Tokenizer& tokenizer, const std::string& body) {
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizeRequest request, parse_tokenize(body));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                            encode_raw(tokenizer, *request.text, request.raw));
  if (!request.with_pieces) return Json{{"tokens", ids}};
  Json tokens = Json::array();
  for (const TokenId id : ids) {
    OUTRIDER_ASSIGN_OR_RETURN(Json piece, piece_of(tokenizer, id));
    tokens.push_back({{"id", id}, {"piece", std::move(piece)}});
  }
  return Json{{"tokens", std::move(tokens)}};
}

// Includes special tokens. Bytes that are not UTF-8, such as an incomplete character, become
// U+FFFD.
Result<Json> detokenize(const Tokenizer& tokenizer, const std::string& body) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_body(body));
  for (const auto& [key, value] : json.items()) {
    if (key != "tokens" && key != "model" && !value.is_null()) return unsupported(key);
  }
  if (json.value("tokens", Json()).is_null()) return missing("tokens");
  const Result<std::vector<TokenId>> ids = token_ids_of(json["tokens"], "tokens");
  const StatusDetail detail{.reason = "invalid_value", .field = "tokens"};
  if (!ids.ok()) return ids.status().with_detail(detail);
  const Result<std::string> text = tokenizer.decode(*ids, /*skip_special=*/false);
  if (!text.ok()) return text.status().with_detail(detail);
  return Json{{"content", *text}};
}

}  // namespace

std::vector<HttpRoute> token_routes(const Tokenizer& tokenizer, const HttpCheck& check) {
  const auto route = [&](const char* path, auto answer) {
    const auto page = [&tokenizer, answer](const HttpRequest& request) {
      const Result<Json> json = answer(tokenizer, request.body);
      return json.ok() ? json_response(*json) : error_response(json.status());
    };
    return page_route("POST", path, page, check);
  };
  return {route("/tokenize", tokenize), route("/detokenize", detokenize)};
}

}  // namespace outrider
