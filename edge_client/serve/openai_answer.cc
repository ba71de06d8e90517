// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/openai_answer.h"

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

const char* finish_reason(const AnswerReport& report) {
  const Ending ending = report.finish.ending;
  return ending == Ending::kLength || ending == Ending::kContextFull ? "length" : "stop";
}

OrderedJson usage(const AnswerReport& report) {
  const DecodingStats& stats = report.stats;
  const std::uint64_t answer = report.ids.size();
  return {{"prompt_tokens", stats.prompt_tokens},
          {"completion_tokens", answer},
          {"total_tokens", stats.prompt_tokens + answer},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", stats.num_accepted_tokens},
            {"rejected_prediction_tokens", stats.num_draft_tokens - stats.num_accepted_tokens}}}};
}

OrderedJson figures(const AnswerReport& report) {
  return OrderedJson::parse(stats_json(report), nullptr, false);
}

}  // namespace

std::string first_event(const AnswerName& name) {
  if (!name.is_chat) return {};
  return event(chunk(name, {{"role", "assistant"}, {"content", ""}}, nullptr));
}

std::string text_event(const AnswerName& name, const Emit& emit) {
  std::string text;
  OrderedJson tokens = OrderedJson::array();
  for (const Emit::Token& token : emit.tokens) {
    text += token.text;
    if (!token.text.empty()) {
      tokens.push_back({{"text", token.text}, {"drafted", token.drafted}});
    }
  }
  if (text.empty()) return {};
  OrderedJson json = chunk(name, {{"content", text}}, nullptr);
  json["outrider"] = {{"tokens", std::move(tokens)}};
  return event(json);
}

std::string last_events(const AnswerName& name, const AnswerReport& report, bool with_usage) {
  OrderedJson last = chunk(name, OrderedJson::object(), finish_reason(report));
  last["outrider"] = figures(report);
  std::string events = event(last);
  if (with_usage) {
    OrderedJson json = head(name, true);
    json["choices"] = OrderedJson::array();
    json["usage"] = usage(report);
    events += event(json);
  }
  return events + "data: [DONE]\n\n";
}

std::string error_event(const Status& status) {
  return "data: " + error_response(status).body + "\n\ndata: [DONE]\n\n";
}

std::string whole_answer(const AnswerName& name, const AnswerReport& report) {
  OrderedJson json = head(name, false);
  OrderedJson choice = {{"index", 0}};
  if (name.is_chat) {
    choice["message"] = {{"role", "assistant"}, {"content", report.text}};
  } else {
    choice["text"] = report.text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(report);
  json["choices"] = OrderedJson::array({std::move(choice)});
  json["usage"] = usage(report);
  json["outrider"] = figures(report);
  return dump(json);
}

HttpResponse error_response(const Status& status) {
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
  if (code == 429 || code == 503) response.headers.emplace_back("Retry-After", "2");
  return response;
}

Status answer_status(const AnswerReport& report) {
  const Ending ending = report.finish.ending;
  return ending == Ending::kLinkLost || ending == Ending::kFailed ? report.finish.status : Status();
}

}  // namespace outrider
