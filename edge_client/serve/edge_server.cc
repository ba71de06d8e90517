// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/edge_server.h"

#include <functional>
#include <utility>

#include "common/base/json.h"
#include "common/serving/openai/request_span.h"
#include "common/serving/page/chat_page.h"
#include "common/serving/telemetry/log.h"
#include "edge_client/report/answer_ledger.h"
#include "edge_client/serve/answer_form.h"

namespace outrider {

EdgeServer::EdgeServer(EdgeServerOptions options, const GeneratorParts& parts)
    : options_(std::move(options)),
      draft_(parts.draft),
      elastic_(parts.elastic),
      engine_(parts.engine),
      tokenizer_(parts.tokenizer),
      clock_(parts.clock),
      metrics_(options_.served_name.empty() ? options_.own_name : options_.served_name),
      link_(parts.mode, options_.probe, parts.clock),
      constraints_(parts.constraints),
      queue_(parts, options_.queue, link_,
             [this](const std::string& id, const AnswerReport& report) { on_answer(id, report); }) {
}

Result<std::unique_ptr<EdgeServer>> EdgeServer::start(const EdgeServerOptions& options,
                                                      const GeneratorParts& parts) {
  std::unique_ptr<EdgeServer> self(new EdgeServer(options, parts));
  OUTRIDER_ASSIGN_OR_RETURN(self->http_, HttpServer::start(options.http, self->routes()));
  return self;
}

std::vector<HttpRoute> EdgeServer::routes() {
  OpenaiService service{
      .tokenizer = &tokenizer_,
      .model_name = [this] { return model_name(); },
      .chat = [this] { return options_.chat->now(); },
      .chat_template = options_.chat->name(),
      .reading = options_.reading,
      .context = options_.context,
      .max_choices = options_.queue.max_waiting + 1,
      .levels = options_.levels,
      .defaults = [this] { return default_params(); },
      .complete = [this](CompletionCall call) { return complete(std::move(call)); }};
  if (constraints_ != nullptr) {
    service.constrain = [this](const ConstraintSpec& spec, const HttpRequest& request) {
      return constraints_->compile(spec, network_of(request.peer));
    };
  }
  std::vector<HttpRoute> routes = openai_routes(service);
  // Readiness is the only health page that depends on the link: link_route() serves that one.
  for (HttpRoute& route : health_routes([this] { return health({.can_answer = true}); })) {
    if (route.path != "/health/ready") routes.push_back(std::move(route));
  }
  using View = LinkWatch::View;
  routes.push_back(
      link_route("/health/ready", [this](const View& now) { return ready_page(health(now)); }));
  routes.back().is_health = true;
  routes.push_back(
      link_route("/health", [this](const View& now) { return state_page(now, true); }));
  routes.push_back(link_route("/link", [this](const View& now) { return state_page(now, false); }));
  routes.push_back(chat_page_route({.knows_link = true}));
  routes.push_back(
      page_route("GET", "/metrics", [this](const HttpRequest&) { return metrics_page(); }));
  return routes;
}

HttpRoute EdgeServer::link_route(const char* path,
                                 std::function<HttpResponse(const LinkWatch::View&)> page) {
  const auto answer = [this, page = std::move(page)](
                          const HttpRequest&, const std::shared_ptr<HttpExchange>& exchange) {
    link_.look_fresh(
        [page, exchange](const LinkWatch::View& view) { exchange->respond(page(view)); });
  };
  return {.method = "GET", .path = path, .handler = answer};
}

void EdgeServer::drain() {
  draining_ = true;
  queue_.drain();
}

std::string EdgeServer::model_name() {
  if (!options_.served_name.empty()) return options_.served_name;
  std::string name = link_.target();
  if (name.empty() && options_.chat != nullptr) name = options_.chat->target_name();
  const bool may_come = options_.chat != nullptr && !options_.chat->away().ok();
  return name.empty() && !may_come ? options_.own_name : name;
}

Result<CompletionParams> EdgeServer::default_params() {
  CompletionParams params = params_of(options_.defaults);
  SamplingParams& sampling = params.text.choice.sampling;
  if (options_.chat != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(sampling, options_.chat->sampling(sampling));
  }
  return params;
}

// How the answer's calls name its trace; without a tracer they pass on what came.
TraceHeaders EdgeServer::begin_trace(const CompletionCall& call,
                                     std::unique_ptr<AnswerTrace>& trace) {
  const TraceHeaders from = trace_headers_of(call.request);
  if (options_.tracer == nullptr) return parse_traceparent(from.parent) ? from : TraceHeaders();
  const Trace begun = options_.tracer->begin(from);
  if (begun.context.sampled) {
    trace = std::make_unique<AnswerTrace>(*options_.tracer,
                                          request_span(begun, call, model_name(), clock_.now()));
  }
  return headers_of(begun.context);
}

Status EdgeServer::complete(CompletionCall call) {
  std::unique_ptr<AnswerTrace> trace;
  TraceHeaders headers = begin_trace(call, trace);
  return queue_.submit({.request = {.prompt = std::move(call.prompt),
                                    .config = config_of(call.params, options_.defaults),
                                    .id = call.request.id,
                                    .trace = std::move(headers),
                                    .came_at = clock_.now()},
                        .client = std::move(call.client),
                        .group = network_of(call.request.peer),
                        .trace = std::move(trace)});
}

Health EdgeServer::health(const LinkWatch::View& link) {
  return {.alive = is_alive(),
          .ready = link.can_answer && !queue_.full() && !draining_ &&
                   (!options_.check || options_.check().ok()),
          .version = options_.version,
          .model_name = model_name()};
}

HttpResponse EdgeServer::state_page(const LinkWatch::View& view, bool status_says_so) {
  const Health now = health(view);
  const bool ok = now.alive && now.ready;
  const char* decides = view.device_decides ? "device" : view.can_answer ? "server" : "nobody";
  HttpResponse page = json_response({{"status", ok ? "ok" : "unavailable"},
                                     {"link", name_of(view.link)},
                                     {"decides", decides},
                                     {"running", queue_.running()},
                                     {"waiting", queue_.waiting()}});
  if (status_says_so && !ok) page.status = 503;
  return page;
}

std::optional<double> EdgeServer::target_kv() const {
  const VerifyEngine* const engine = elastic_ != nullptr ? &elastic_->engine() : engine_;
  if (engine == nullptr) return {};
  const SchedulerStats stats = engine->stats();
  if (stats.kv_bytes_bound == 0) return 0;  // it is taken with the first answer
  return static_cast<double>(stats.kv_bytes) / static_cast<double>(stats.kv_bytes_bound);
}

HttpResponse EdgeServer::metrics_page() {
  metrics_.rename(model_name());
  const Tracer* const tracer = options_.tracer;
  return {
      .status = 200,
      .body = metrics_.render({.running = std::size_t{queue_.running()},
                               .waiting = queue_.waiting(),
                               .link = link_.look(),
                               .device = options_.device(),
                               .traces = tracer != nullptr ? tracer->counts() : Tracer::Counts(),
                               .draft_kv = draft_ != nullptr ? draft_->kv_usage() : std::nullopt,
                               .target_kv = target_kv()}),
      .content_type = "text/plain; version=0.0.4"};
}

// The books: a line for each answer, and the sums.
void EdgeServer::on_answer(const std::string& request_id, const AnswerReport& report) {
  metrics_.rename(model_name());
  metrics_.observe(report);
  // Another server may have come, with another template than the one that the prompt was written
  // by.
  // Nor is the key it knows the same for ever.
  const StatusCode ended = report.finish.status.code();
  if (ended == StatusCode::kFailedPrecondition || ended == StatusCode::kUnauthenticated ||
      ended == StatusCode::kPermissionDenied) {
    options_.chat->ask_again();
  }
  std::vector<LogField> fields = {{"request_id", request_id},
                                  {"finished_reason", name_of(report.finish.ending)}};
  const std::vector<LogField> used = ledger_fields(ledger_entry(report.record), report.record.bill);
  fields.insert(fields.end(), used.begin(), used.end());
  log(LogLevel::kInfo, "answer ended", fields);
}

}  // namespace outrider
