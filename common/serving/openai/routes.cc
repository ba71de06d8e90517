// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/routes.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/random_id.h"
#include "common/serving/conversation/chat_template.h"
#include "common/serving/http/error_response.h"
#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/field_readers.h"
#include "common/serving/openai/openapi.h"
#include "common/serving/openai/token_routes.h"
#include "common/serving/telemetry/log.h"

namespace outrider {
namespace {

std::int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string new_id(Api api) {
  const char* const kind = api == Api::kChat        ? "chatcmpl-"
                           : api == Api::kResponses ? "resp_"
                           : api == Api::kMessages  ? "msg_"
                                                    : "cmpl-";
  return kind + random_id();
}

AnswerName new_answer(const std::string& model, Api api, ServiceTier tier) {
  return {.id = new_id(api),
          .model = model,
          .api = api,
          .created = seconds_since_1970(),
          .service_tier = tier};
}

constexpr std::string_view kModels = "/v1/models";
const StatusDetail kNoSuchModel = {.reason = "model_not_found", .field = "model"};

std::string known_levels(const std::vector<ServedLevel>& levels) {
  std::string names;
  for (const ServedLevel& level : levels) names += (names.empty() ? "" : ", ") + level.name;
  return names.empty() ? "" : ", with the levels " + names;
}

// All models, which are one and its levels, or one of them. template_hash: of its chat template;
// empty: there is none, or it is not known yet.
HttpResponse models_page(const std::string& path, const std::string& model,
                         const std::vector<ServedLevel>& levels, std::int64_t created,
                         const std::string& template_hash) {
  const Json one = {{"id", model},
                    {"object", "model"},
                    {"created", created},
                    {"owned_by", "outrider"},
                    {"template_hash", template_hash.empty() ? Json() : Json(template_hash)}};
  Json all = Json::array({one});
  for (const ServedLevel& level : levels) {
    Json entry = one;
    entry["id"] = model + "@" + level.name;
    entry["level"] = {{"name", level.name},
                      {"divergence", level.divergence},
                      {"agreement", level.agreement},
                      {"quality", level.quality}};
    all.push_back(std::move(entry));
  }
  if (path == kModels) return json_response({{"object", "list"}, {"data", std::move(all)}});
  const std::string asked = path.substr(kModels.size() + 1);
  for (const Json& each : all) {
    if (each["id"] == asked) return json_response(each);
  }
  return error_response(not_found("there is no model " + printable(asked) + " here; there is " +
                                  printable(model) + known_levels(levels))
                            .with_detail(kNoSuchModel));
}

// The level that "model" names behind its last "@", if it is not all of the model's own name.
Status read_level(const OpenaiService& service, const std::string& model,
                  const CompletionParams& defaults, CompletionRequest& asked) {
  LevelWish& wish = asked.params.wish;
  const bool needs_levels = wish.slo.asks() && !(wish.slo.unverified && defaults.speculation);
  if (service.levels.empty() && needs_levels) {
    return unimplemented("'slo' is not supported here: this model has no levels; leave it out")
        .with_detail({.reason = "unsupported_parameter", .field = "slo"});
  }
  const std::size_t at = asked.model.rfind('@');
  if (at == std::string::npos || asked.model == model) return {};
  const std::string name = asked.model.substr(at + 1);
  const Result<LevelCourse> course = parse_level_course(name);
  const auto is_level = [&service](const std::string& each) {
    return std::ranges::find(service.levels, each, &ServedLevel::name) != service.levels.end();
  };
  const bool may_choose = name == "auto" && !service.levels.empty();
  const bool is_known = course.ok() && is_level(course->first) &&
                        std::ranges::all_of(course->then, is_level, &LevelCourse::Part::level);
  if (!may_choose && !is_known) {
    return not_found("'model' is " + printable(asked.model) + ", but " + printable(model) +
                     " has no level " + printable(name) + known_levels(service.levels))
        .with_detail(kNoSuchModel);
  }
  wish.level = name;
  return {};
}

// Logs once for each field why requests with it are answered as if it were not there.
class IgnoredFields final {
 public:
  void log_new(LogLevel level, const std::string& field, const char* why) {
    const MutexLock lock(mu_);
    if (told_.insert(field).second) log(level, why, {{"field", field}});
  }

 private:
  Mutex mu_;
  std::set<std::string> told_ OUTRIDER_GUARDED_BY(mu_);
};

// A template that is missing is no address that is not known.
Status refused_prompt(const Status& status, Api api) {
  if (!status.detail().reason.empty()) return status;
  const bool lacks_template = api != Api::kCompletions && status.code() == StatusCode::kNotFound;
  return status.with_detail({.reason = lacks_template ? "chat_template_not_found" : "invalid_value",
                             .field = prompt_field(api)});
}

// Compiles the form that the answer is to have, once for all choices.
Status compile_form(const OpenaiService& service, const HttpRequest& request,
                    CompletionRequest& asked) {
  AnswerConstraint& constraint = asked.params.text.choice.settings.constraint;
  if (!constraint.asks() || constraint.compiled != nullptr) return {};
  const StatusDetail refused{.reason = "invalid_value", .field = asked.form_field};
  if (!service.constrain) {
    return unimplemented("'" + asked.form_field + "': answers cannot be held to a form here")
        .with_detail(refused);
  }
  Result<AnswerConstraint> compiled = service.constrain(constraint.spec, request);
  if (!compiled.ok()) {
    const Status& why = compiled.status();
    // A form that takes too much takes as much when it is requested again, so no time to retry is
    // given.
    return Status(why.code() == StatusCode::kResourceExhausted ? StatusCode::kInvalidArgument
                                                               : why.code(),
                  "'" + asked.form_field + "': " + why.message())
        .with_detail(refused);
  }
  constraint = *std::move(compiled);
  return {};
}

// The log-probabilities of prompts that one reply may have.
Status check_prompt_logprobs(const CompletionRequest& asked, const RequestPrompt& encoded) {
  if (!asked.params.text.prompt_logprobs) return {};
  std::uint64_t wanted = 0;
  for (const EncodedPrompt& prompt : encoded.prompts) {
    wanted += prompt_logprobs_of(prompt.ids.size(), asked.params.text.top_logprobs.value_or(0));
  }
  wanted *= static_cast<std::uint64_t>(asked.choices);
  if (wanted <= kMaxPromptLogprobs) return {};
  return wrong("logprobs",
               "such that all prompts' tokens (echo) and the likeliest at their places are "
               "at most " +
                   std::to_string(kMaxPromptLogprobs) + " together, and they are " +
                   std::to_string(wanted) + ". Remedy: fewer prompts, choices or logprobs");
}

// Starts an answer for each choice of each prompt. Where one is refused, all are.
Status answer(const OpenaiService& service, const HttpRequest& request, CompletionRequest& asked,
              RequestPrompt encoded, const std::shared_ptr<HttpExchange>& exchange,
              const AnswerName& name) {
  const auto each = static_cast<std::size_t>(asked.choices);
  const std::size_t all = encoded.prompts.size() * each;
  const auto reply =
      std::make_shared<CompletionReply>(exchange, name, asked.extras, asked.stream, all);
  if (all > service.max_choices) {
    return wrong(each > 1 ? "n" : "prompt",
                 "at most " + std::to_string(service.max_choices) +
                     " choices of all prompts together: so many are answered or may wait here");
  }
  for (std::size_t index = 0; index < all; ++index) {
    if (index > 0 && reply->is_over()) break;
    const EncodedPrompt& prompt = encoded.prompts[index / each];
    CompletionResponder::Form form{.index = index,
                                   .prompt_tokens = prompt.ids.size(),
                                   .syntax = encoded.syntax,
                                   .counts_prompt = index % each == 0,
                                   .shows_answer = asked.shows_answer};
    if (asked.echo) {
      OUTRIDER_ASSIGN_OR_RETURN(form.begins_with, service.tokenizer->decode(prompt.ids, true));
    }
    if (asked.params.text.top_logprobs) {
      form.logprobs.emplace(*service.tokenizer, asked.is_chat());
      if (asked.params.text.prompt_logprobs) form.logprobs->begin_with(prompt.ids);
    }
    CompletionParams params = asked.params;
    params.text.choice.seed = seed_of_choice(params.text.choice.seed, index % each);
    const auto client = std::make_shared<CompletionResponder>(reply, std::move(form));
    const Status status = service.complete(
        {.request = request, .params = std::move(params), .prompt = prompt, .client = client});
    if (status.ok()) continue;
    if (index == 0) return status;
    client->fail(status);  // it may have begun
    break;
  }
  return {};
}

Status complete(const OpenaiService& service, Api api, const HttpRequest& request,
                const std::shared_ptr<HttpExchange>& exchange, IgnoredFields& ignored) {
  OUTRIDER_ASSIGN_OR_RETURN(const CompletionParams defaults, service.defaults());
  OUTRIDER_ASSIGN_OR_RETURN(CompletionRequest asked, parse_completion(request.body, api, defaults));
  settle_seed(asked.params.text);
  OUTRIDER_RETURN_IF_ERROR(check_named_tokens(*service.tokenizer, asked.params.text));
  const std::string model = service.model_name();
  OUTRIDER_RETURN_IF_ERROR(read_level(service, model, defaults, asked));
  ChatForm form{.template_name = service.chat_template, .reading = service.reading};
  if (asked.is_chat()) {
    OUTRIDER_ASSIGN_OR_RETURN(form.source, service.chat());
  }
  Result<RequestPrompt> encoded = encode_request(*service.tokenizer, asked, form, service.context);
  if (!encoded.ok()) return refused_prompt(encoded.status(), api);
  if (encoded->form.kind != ConstraintKind::kNone) {
    asked.params.text.choice.settings.constraint = {.spec = std::move(encoded->form)};
    asked.form_field = encoded->form_field;
  }
  OUTRIDER_RETURN_IF_ERROR(check_prompt_logprobs(asked, *encoded));
  OUTRIDER_RETURN_IF_ERROR(compile_form(service, request, asked));
  for (const std::string& field : asked.ignored) {
    ignored.log_new(LogLevel::kInfo, field,
                    "a field of requests is ignored: it cannot change the text");
  }
  if (encoded->strict_is_ignored) {
    ignored.log_new(LogLevel::kWarning, "tools[].function.strict",
                    "calls in free text are held to no schema: this model's marks of calls are "
                    "special tokens, or its form of calls has no mark of its own or no JSON");
  }
  const std::string& level = asked.params.wish.level;
  const std::string& shown = model.empty() ? asked.model : model;
  AnswerName name =
      new_answer(level.empty() ? shown : shown + "@" + level, api, asked.params.text.service_tier);
  name.repeated = std::move(asked.repeated);
  // A stream of a message begins with the length of its prompt.
  if (api == Api::kMessages) name.repeated["input_tokens"] = encoded->prompts.front().ids.size();
  return answer(service, request, asked, *std::move(encoded), exchange, name);
}

HttpRoute completion_route(const OpenaiService& service, const char* path, Api api,
                           const std::shared_ptr<IgnoredFields>& ignored) {
  const auto answer = [service, api, ignored](const HttpRequest& request,
                                              const std::shared_ptr<HttpExchange>& exchange) {
    const Status status =
        with_prompt_field(complete(service, api, request, exchange, *ignored), api);
    if (status.ok()) return;
    if (service.on_refused) service.on_refused(request, status);
    exchange->respond(error_response(status, std::nullopt, error_form_of(api)));
  };
  return {.method = "POST",
          .path = path,
          .handler = answer,
          .check = service.check,
          .error_form = error_form_of(api)};
}

}  // namespace

HttpResponse json_response(const Json& json) {
  return {.status = 200,
          .body = json.dump(-1, ' ', false, Json::error_handler_t::replace),
          .content_type = "application/json"};
}

std::vector<HttpRoute> openai_routes(const OpenaiService& service) {
  const auto models = [name = service.model_name, chat = service.chat, levels = service.levels,
                       created = seconds_since_1970()](const HttpRequest& request) {
    if (name().empty()) {
      return error_response(unavailable("no target is known yet: the server is out of reach"));
    }
    const Result<ChatSource> source = chat();
    return models_page(request.path, name(), levels, created,
                       source.ok() ? template_hash(*source) : "");
  };
  const auto ignored = std::make_shared<IgnoredFields>();
  std::vector<HttpRoute> routes = token_routes(*service.tokenizer, service.check);
  routes.push_back(completion_route(service, "/v1/chat/completions", Api::kChat, ignored));
  routes.push_back(completion_route(service, "/v1/responses", Api::kResponses, ignored));
  routes.push_back(completion_route(service, "/v1/messages", Api::kMessages, ignored));
  routes.push_back(completion_route(service, "/v1/completions", Api::kCompletions, ignored));
  for (HttpRoute& route : routes) route.is_slow = true;  // texts may be long
  for (const char* path : {"/v1/models", "/v1/models/*"}) {
    routes.push_back(page_route("GET", path, models, service.check));
  }
  const auto reference = [](const HttpRequest&) {
    return HttpResponse{
        .status = 200, .body = openapi_document().dump(1), .content_type = "application/json"};
  };
  routes.push_back(page_route("GET", "/openapi.json", reference, service.check));
  return routes;
}

std::vector<HttpRoute> closed_openai_routes(const std::string& why) {
  std::vector<HttpRoute> routes;
  for (const char* path :
       {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions", "/tokenize",
        "/detokenize", "/v1/models", "/v1/models/*", "/openapi.json"}) {
    const bool is_page =
        std::string_view(path).starts_with(kModels) || path == std::string_view("/openapi.json");
    routes.push_back(page_route(is_page ? "GET" : "POST", path, nullptr,
                                [why](HttpRequest&) { return not_found(why); }));
  }
  return routes;
}

}  // namespace outrider
