// SPDX-License-Identifier: Apache-2.0
#include "common/openai/routes.h"

#include <chrono>
#include <utility>
#include <vector>

#include "common/base/random_id.h"
#include "common/protocol/request_id.h"
#include "common/text/token_ids.h"

namespace outrider {
namespace {

Result<std::string> decoded(const Tokenizer& tokenizer, const std::string& body) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(body, "the body"));
  if (!json.is_object() || !json.contains("tokens")) {
    return invalid_argument("the body must be JSON: {\"tokens\": [ID, ..]}");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, token_ids_of(json["tokens"], "tokens"));
  return tokenizer.decode(ids, /*skip_special=*/false);
}

}  // namespace

Status check_origin(const HttpRequest& request) {
  const std::string& origin = request.header("origin");
  if (origin.empty() || origin == "http://" + request.header("host")) return {};
  return invalid_argument("requests from pages of " + printable(origin) + " are not answered");
}

std::string request_id_of(const HttpRequest& request) {
  const std::string& given = request.header(kRequestIdHeader);
  return is_request_id(given) ? given : "req-" + random_id();
}

AnswerName new_answer(const std::string& model, bool is_chat) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = (is_chat ? "chatcmpl-" : "cmpl-") + random_id(),
          .model = model,
          .is_chat = is_chat,
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count()};
}

HttpResponse json_response(const Json& json) {
  return {.status = 200,
          .body = json.dump(-1, ' ', false, Json::error_handler_t::replace),
          .content_type = "application/json"};
}

HttpResponse models_page(const std::string& model) {
  return json_response(
      {{"object", "list"},
       {"data", Json::array({{{"id", model}, {"object", "model"}, {"owned_by", "outrider"}}})}});
}

HttpResponse tokenize_page(const Tokenizer& tokenizer, const HttpRequest& request) {
  const Result<Json> body = parse_json(request.body, "the body");
  if (!body.ok() || !body->is_object() || !body->value("content", Json()).is_string()) {
    return error_response(invalid_argument("the body must be JSON: {\"content\": TEXT}"));
  }
  const Result<std::vector<TokenId>> ids =
      tokenizer.encode((*body)["content"].get_ref<const std::string&>());
  if (!ids.ok()) return error_response(ids.status());
  return json_response({{"tokens", *ids}});
}

HttpResponse detokenize_page(const Tokenizer& tokenizer, const HttpRequest& request) {
  const Result<std::string> text = decoded(tokenizer, request.body);
  if (!text.ok()) return error_response(text.status());
  return json_response({{"content", *text}});
}

}  // namespace outrider
