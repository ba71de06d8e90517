// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_request.h"

#include <utility>

#include "common/base/json.h"
#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/form_fields.h"
#include "common/serving/openai/idle_fields.h"
#include "common/serving/openai/message_fields.h"
#include "common/serving/openai/request_fields.h"
#include "common/serving/openai/response_fields.h"

namespace outrider {
namespace {

// Templates write a tool's keys in the client's order, which sorted objects do not keep.
Status read_tool_use(const nlohmann::ordered_json& body, const Json& json, Api api, ToolUse& use) {
  if (!json.value("tools", Json()).is_null()) {
    OUTRIDER_RETURN_IF_ERROR(read_tools(body["tools"], api, use));
  }
  Json choice = json.value("tool_choice", Json());
  if (api != Api::kMessages) return read_tool_choice(choice, api, use);
  OUTRIDER_ASSIGN_OR_RETURN(choice, chat_tool_choice(choice, use));
  return read_tool_choice(choice, Api::kChat, use);
}

Result<AskedForm> read_asked_form(const nlohmann::ordered_json& body, Api api) {
  const auto in = [&body](const char* field) {
    return read_text_form(body.value(field, nlohmann::ordered_json()), field);
  };
  if (api == Api::kResponses) return in("text");
  return api == Api::kMessages ? in("output_config") : read_form(body);
}

// A request's form stands in place of the program's default.
Status read_answer_form(const nlohmann::ordered_json& body, CompletionRequest& request) {
  OUTRIDER_ASSIGN_OR_RETURN(AskedForm form, read_asked_form(body, request.api));
  AnswerConstraint& constraint = request.params.text.choice.settings.constraint;
  if (form.is_text_asked || form.spec.kind != ConstraintKind::kNone) {
    constraint = {.spec = std::move(form.spec)};
  }
  if (!constraint.asks()) return {};
  request.form_field = form.field.empty() ? "response_format" : form.field;
  const bool is_json = constraint.spec.kind == ConstraintKind::kJsonSchema ||
                       constraint.spec.kind == ConstraintKind::kJsonObject;
  if (!request.tool_use.tools.empty() && !is_json) {
    return invalid_argument("'" + request.form_field +
                            "' stands beside 'tools' where it is JSON. Remedy: one of the two, or "
                            "\"tool_choice\": \"none\"")
        .with_detail({.reason = "invalid_value", .field = request.form_field});
  }
  // Clients send a JSON form beside a call that they require. The answer is calls, so it has no
  // text that the form could hold.
  if (request.tool_use.must_call) {
    constraint = {};
    return {};
  }
  const TextOptions& text = request.params.text;
  if (text.ignore_eos && text.stop_token_ids.empty()) {
    return wrong("ignore_eos",
                 "false where the answer has a form, at whose end a stop token comes");
  }
  request.reads_reasoning = false;  // the whole answer has the form
  return {};
}

Status read_field(const std::string& key, const Json& value, CompletionRequest& request) {
  if (value.is_null() && key != "seed") return {};
  if (const RequestField* field = find_request_field(key, request.api)) {
    return field->read(value, request);
  }
  if (asks_for_nothing(key, value)) return {};
  if (!cannot_change_text(key)) {
    return request.api == Api::kResponses ? unsupported_in_response(key) : unsupported(key);
  }
  request.ignored.push_back(key);
  return {};
}

// Checks the fields whose bounds depend on each other.
Status check_choices(const CompletionRequest& request) {
  const auto number = static_cast<std::int64_t>(request.is_chat() ? 1 : request.prompts.size());
  if (request.choices > static_cast<std::int64_t>(kMaxChoices) / number) {
    return wrong("n", "at most " + std::to_string(kMaxChoices) + " choices of all prompts together",
                 Json(request.choices));
  }
  if (request.best_of && *request.best_of != request.choices) {
    return unimplemented("'best_of' is supported where it equals 'n'; leave it out")
        .with_detail({.reason = "unsupported_parameter", .field = "best_of"});
  }
  return {};
}

Status check_logprobs(CompletionRequest& request) {
  std::optional<std::uint32_t>& top = request.params.text.top_logprobs;
  if (request.is_chat() && top.value_or(0) > 0 && !request.wants_logprobs) {
    return wrong("top_logprobs", request.api == Api::kChat
                                     ? "with \"logprobs\": true"
                                     : "with \"include\": [\"message.output_text.logprobs\"]");
  }
  if (request.is_chat()) {
    if (!request.wants_logprobs) top.reset();
    if (request.wants_logprobs && !top) top = 0;
  }
  request.params.text.prompt_logprobs = request.echo && top.has_value();
  return {};
}

// Without a token of its own an answer is its prompt. The token that the prompt's last row decides
// is made, and not shown.
Status check_echo(CompletionRequest& request) {
  if (request.echo && !request.suffix.empty()) {
    return wrong("echo", "false where there is a 'suffix'");
  }
  std::int64_t& length = request.params.text.max_tokens;
  if (length != 0) return {};
  if (!request.echo) return wrong("max_tokens", "at least 1, unless \"echo\" is true", Json(0));
  request.shows_answer = false;
  length = 1;
  return {};
}

Status check_slo_form(const Json& json, CompletionRequest& request) {
  Slo& slo = request.params.wish.slo;
  if (!slo.unverified || request.stream) return {};
  if (json.value("slo", Json()).is_null()) {
    slo = {};  // the program's default
    return {};
  }
  return invalid_argument(
             "'slo.unverified' is an event of a stream, before the rest. Remedy: \"stream\": true")
      .with_detail({.reason = "invalid_value", .field = "slo.unverified"});
}

Status check_lengths(const Json& json) {
  const Json old_length = json.value("max_tokens", Json());
  const Json length = json.value("max_completion_tokens", Json());
  if (old_length.is_null() || length.is_null() || old_length == length) return {};
  return invalid_argument("'max_tokens' " + old_length.dump() + " and 'max_completion_tokens' " +
                          length.dump() + " say two things. Remedy: max_completion_tokens alone")
      .with_detail({.reason = "invalid_value", .field = "max_completion_tokens"});
}

}  // namespace

Result<CompletionRequest> parse_completion(std::string_view body, Api api,
                                           const CompletionParams& defaults) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_body(body));
  // Messages show what the model thinks where they are asked to.
  CompletionRequest request{
      .api = api, .shows_reasoning = api != Api::kMessages, .params = defaults};
  for (const auto& [key, value] : json.items()) {
    if (const Status read = read_field(key, value, request); !read.ok()) {
      const bool told = !read.detail().reason.empty();
      return told ? read : read.with_detail({.reason = "invalid_value", .field = key});
    }
  }
  OUTRIDER_RETURN_IF_ERROR(check_slo_form(json, request));
  OUTRIDER_RETURN_IF_ERROR(check_lengths(json));
  const auto ordered = nlohmann::ordered_json::parse(body, nullptr, false);
  if (request.is_chat()) {
    OUTRIDER_RETURN_IF_ERROR(read_tool_use(ordered, json, api, request.tool_use));
  }
  OUTRIDER_RETURN_IF_ERROR(read_answer_form(ordered, request));
  if (json.value(prompt_field(api), Json()).is_null()) return missing(prompt_field(api));
  if (api == Api::kResponses) {
    OUTRIDER_RETURN_IF_ERROR(check_response_request(ordered, request));
  }
  OUTRIDER_RETURN_IF_ERROR(check_choices(request));
  OUTRIDER_RETURN_IF_ERROR(check_logprobs(request));
  OUTRIDER_RETURN_IF_ERROR(check_echo(request));
  return request;
}

}  // namespace outrider
