// SPDX-License-Identifier: Apache-2.0
#include "common/openai/completion_answer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Half characters of a token are held back by the session, so text is UTF-8; a faulty tokenizer's
// is mended rather than thrown over.
std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string event(const OrderedJson& json) {
  return "data: " + dump(json) + "\n\n";
}

OrderedJson head(const AnswerName& name, bool chunk) {
  const char* object =
      name.is_chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return {{"id", name.id}, {"object", object}, {"created", name.created}, {"model", name.model}};
}

OrderedJson chunk(const AnswerName& name, OrderedJson delta, const OrderedJson& reason) {
  OrderedJson json = head(name, true);
  OrderedJson choice = {{"index", 0}};
  if (name.is_chat) {
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = delta.value("content", "");
  }
  choice["finish_reason"] = reason;
  json["choices"] = OrderedJson::array({std::move(choice)});
  return json;
}

const char* finish_reason(const AnswerEnd& end) {
  return end.by_length ? "length" : "stop";
}

OrderedJson usage(const AnswerEnd& end) {
  return {{"prompt_tokens", end.prompt_tokens},
          {"completion_tokens", end.completion_tokens},
          {"total_tokens", end.prompt_tokens + end.completion_tokens},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", end.accepted_tokens},
            {"rejected_prediction_tokens", end.rejected_tokens}}}};
}

}  // namespace

std::string first_event(const AnswerName& name) {
  if (!name.is_chat) return {};
  return event(chunk(name, {{"role", "assistant"}, {"content", ""}}, nullptr));
}

std::string text_event(const AnswerName& name, std::span<const AnswerPiece> pieces) {
  std::string text;
  OrderedJson tokens = OrderedJson::array();
  for (const AnswerPiece& piece : pieces) {
    text += piece.text;
    if (!piece.text.empty()) {
      tokens.push_back({{"text", piece.text}, {"drafted", piece.drafted}});
    }
  }
  if (text.empty()) return {};
  OrderedJson json = chunk(name, {{"content", text}}, nullptr);
  json["outrider"] = {{"tokens", std::move(tokens)}};
  return event(json);
}

std::string last_events(const AnswerName& name, const AnswerEnd& end, bool with_usage) {
  OrderedJson last = chunk(name, OrderedJson::object(), finish_reason(end));
  last["outrider"] = end.figures;
  std::string events = event(last);
  if (with_usage) {
    OrderedJson json = head(name, true);
    json["choices"] = OrderedJson::array();
    json["usage"] = usage(end);
    events += event(json);
  }
  return events + "data: [DONE]\n\n";
}

std::string error_event(const Status& status) {
  return "data: " + error_response(status).body + "\n\ndata: [DONE]\n\n";
}

std::string whole_answer(const AnswerName& name, const std::string& text, const AnswerEnd& end) {
  OrderedJson json = head(name, false);
  OrderedJson choice = {{"index", 0}};
  if (name.is_chat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(end);
  json["choices"] = OrderedJson::array({std::move(choice)});
  json["usage"] = usage(end);
  json["outrider"] = end.figures;
  return dump(json);
}

HttpResponse error_response(const Status& status, Duration retry_after) {
  int code = 500;
  const char* type = "server_error";
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnimplemented:
    case StatusCode::kFailedPrecondition:
      code = 400;
      type = "invalid_request_error";
      break;
    case StatusCode::kNotFound:
      code = 404;
      type = "invalid_request_error";
      break;
    case StatusCode::kResourceExhausted:
      code = 429;
      type = "rate_limit_error";
      break;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
      code = 503;
      break;
    default:
      break;
  }
  const OrderedJson json = {{"error",
                             {{"message", status.message()},
                              {"type", type},
                              {"param", nullptr},
                              {"code", to_string(status.code())}}}};
  HttpResponse response{.status = code, .body = dump(json), .content_type = "application/json"};
  if (code == 429 || code == 503) {
    const double seconds = std::max(std::ceil(to_seconds(retry_after)), 1.0);
    response.headers.emplace_back("Retry-After", std::to_string(static_cast<long long>(seconds)));
  }
  return response;
}

}  // namespace outrider
