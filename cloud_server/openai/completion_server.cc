// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/openai/completion_server.h"

#include <memory>
#include <utility>

#include "cloud_server/openai/completion_stream.h"
#include "common/base/address.h"
#include "common/serving/openai/request_span.h"

namespace outrider {
namespace {

std::string who_asks(const HttpRequest& request) {
  return name_in_log(request.peer, request.id);
}

}  // namespace

std::vector<HttpRoute> CompletionServer::routes() {
  OpenaiService service{
      .tokenizer = &tokenizer_,
      .model_name = [name = options_.model_name] { return name; },
      .chat = [this] { return options_.chat; },
      .reading = options_.reading,
      .context = options_.context,
      .max_choices = options_.max_choices,
      .defaults =
          [sampling = with_defaults({}, options_.sampling)] {
            return CompletionParams{.text = {.choice = {.sampling = sampling}, .draws_seed = true}};
          },
      .complete = [this](CompletionCall call) { return complete(std::move(call)); },
      .on_refused = [this](const HttpRequest& request,
                           const Status& status) { faults_.refuse(who_asks(request), status); }};
  if (options_.levels != nullptr) {
    const std::vector<LevelProfile> profile = options_.levels->profile();
    for (const ElasticLevel& level : options_.levels->levels()) {
      service.levels.push_back(
          {level.name, level.divergence, level.agreement, profile[service.levels.size()].quality});
    }
  }
  service.check = [this](HttpRequest& request) { return check_caller(request); };
  if (options_.constraints != nullptr) {
    service.constrain = [this](const ConstraintSpec& spec, const HttpRequest& request) {
      const auto caller = std::static_pointer_cast<const Caller>(request.caller);
      return options_.constraints->compile(
          spec, caller == nullptr ? network_of(request.peer) : caller->tenant);
    };
  }
  return openai_routes(service);
}

Status CompletionServer::check_caller(HttpRequest& request) const {
  Result<Caller> caller = identify({.key = request.api_key(),
                                    .host = request.peer,
                                    .certificate_name = request.certificate_name},
                                   options_.authenticator, Front::kOpenAi);
  if (!caller.ok()) {
    faults_.refuse(who_asks(request), caller.status());
    return caller.status();
  }
  if (!caller->tenant.empty()) request.caller = std::make_shared<const Caller>(*std::move(caller));
  return {};
}

// Nothing: one model answers all.
Result<std::optional<LevelChoice>> CompletionServer::choose_level(
    const CompletionCall& call) const {
  if (options_.levels == nullptr) return std::optional<LevelChoice>();
  const LevelWish& wish = call.params.wish;
  if (wish.slo.unverified) {
    return invalid_argument(
        "slo.unverified is what a draft expects of an answer, and here the target answers alone. "
        "Remedy: leave it out, or ask an edge (outrider-edge serve)");
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      LevelChoice choice,
      options_.levels->choose(wish, {.prompt_tokens = std::ssize(call.prompt.ids),
                                     .max_tokens = call.params.text.max_tokens,
                                     .watts = options_.watts}));
  choice.may_switch = false;  // other sessions' passes are in its times
  return std::optional(choice);
}

// Null: the request is not traced.
std::unique_ptr<StreamSpans> CompletionServer::begin_trace(const CompletionCall& call,
                                                           const std::string& tenant) const {
  const Trace trace = options_.tracer->begin(trace_headers_of(call.request));
  if (!trace.context.sampled) return nullptr;
  TraceSpan span = request_span(trace, call, options_.model_name, clock_.now());
  span.set("outrider.tenant", tenant);
  return std::make_unique<StreamSpans>(*options_.tracer, std::move(span), "pass");
}

Status CompletionServer::complete(CompletionCall call) {
  const auto caller = std::static_pointer_cast<const Caller>(call.request.caller);
  const std::string tenant = caller == nullptr ? "" : caller->tenant;
  OUTRIDER_RETURN_IF_ERROR(check_tier(options_.tenants, tenant, call.params.text.service_tier));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<LevelChoice> level, choose_level(call));
  std::string written_by = call.prompt.template_hash;
  OUTRIDER_ASSIGN_OR_RETURN(PlainAnswer answer,
                            PlainAnswer::begin(tokenizer_, std::move(call.prompt), call.params,
                                               options_.context, options_.tokenizer_hash));
  if (level) answer.answer_by(options_.levels->levels()[level->level].name);
  if (level && level->may_change()) answer.follow({*level, options_.levels->profile()});
  Recorder* const recorder = options_.recorder;
  const bool recorded =
      recorder != nullptr && (recorder->has_file() || call.client->wants_record());
  if (recorded) answer.record_by(*recorder, std::move(written_by));
  std::unique_ptr<StreamSpans> spans;
  if (options_.tracer != nullptr) spans = begin_trace(call, tenant);
  const auto stream = std::make_shared<CompletionStream>(
      engine_, faults_, clock_, std::move(answer),
      CompletionStream::Client{.who = who_asks(call.request),
                               .key = caller == nullptr ? nullptr : caller->key,
                               .bytes_up = call.request.body.size(),
                               .responder = call.client,
                               .keep_alive = options_.keep_alive,
                               .level = level,
                               .levels = options_.levels,
                               .spans = std::move(spans),
                               .recorder = recorder});
  const AdmissionResult admitted = stream->begin(
      options_.tenants, {.tenant = tenant,
                         .group = tenant.empty() ? network_of(call.request.peer) : tenant,
                         .request_id = call.request.id,
                         .due = clock_.now() + due_within(call.params.wish.slo)});
  if (admitted.status.ok()) return {};
  faults_.refuse(who_asks(call.request), admitted.status);
  call.client->fail(admitted.status, admitted.retry_after);
  return {};
}

}  // namespace outrider
