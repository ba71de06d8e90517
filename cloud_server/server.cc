// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/server.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "cloud_server/http/ledger.h"
#include "cloud_server/kv_memory.h"
#include "common/serving/cli/notify.h"
#include "common/serving/cli/program.h"
#include "common/serving/http/error_response.h"
#include "common/serving/http/health_routes.h"
#include "common/serving/openai/routes.h"
#include "common/serving/page/chat_page.h"
#include "common/serving/telemetry/log.h"
#include "proto/grpc_log.h"

namespace outrider {
namespace {

// How often a draining server looks for a second signal.
constexpr Duration kSignalPoll = std::chrono::milliseconds(50);
// How often a server that starts looks for its first.
constexpr Duration kStartPoll = std::chrono::milliseconds(10);
// How often a serving one looks for a device that hangs.
constexpr Duration kWatchPoll = std::chrono::milliseconds(100);
// How often the supervisor gets a sign of life.
constexpr Duration kSignOfLife = std::chrono::seconds(1);
// A CUDA error of an illegal address, say, fails every later call of the process.
constexpr std::uint64_t kFailuresOfABrokenDevice = 3;
// For the last words of streams whose sessions are over.
constexpr Duration kFarewell = std::chrono::seconds(1);
// Until edges have read them: one that still acknowledges into a closed connection loses what it
// has not read.
constexpr Duration kLinger = std::chrono::milliseconds(300);

constexpr char kNoTokenizer[] =
    "OpenAI's routes are off, because this target has no tokenizer. Remedy: add tokenizer.json to "
    "the model's directory, and start the server anew";

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

bool signal_waits() {
  const sigset_t signals = ending_signals();
  const timespec at_once{};
  return sigtimedwait(&signals, nullptr, &at_once) > 0;
}

}  // namespace

void block_signals() {
  sigset_t signals = ending_signals();
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

StartSignals::StartSignals()
    : thread_([](const std::stop_token& stop) {
        const sigset_t signals = ending_signals();
        const timespec poll{.tv_sec = 0, .tv_nsec = kStartPoll.count()};
        while (!stop.stop_requested()) {
          const int signal = sigtimedwait(&signals, nullptr, &poll);
          if (signal <= 0) continue;
          std::signal(signal, SIG_DFL);
          pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
          raise(signal);
        }
      }) {}

Server::Server(const LoadedTarget& target, ServerOptions options)
    : target_(target),
      options_(std::move(options)),
      faults_([](const std::string& line) { log(LogLevel::kWarning, line); }),
      authenticator_(tenants_, options_.throttle_wrong_keys),
      keys_(options_.token_file) {}

Result<std::unique_ptr<Server>> Server::start(const LoadedTarget& target, ServerOptions options) {
  std::unique_ptr<Server> server(new Server(target, std::move(options)));
  OUTRIDER_RETURN_IF_ERROR(server->read_files());
  server->fill_scheduler_options();
  server->engine_.emplace(*target.model, server->options_.scheduler, server->clock_);
  OUTRIDER_RETURN_IF_ERROR(server->listen());
  return server;
}

Status Server::read_files() {
  if (!options_.token_file.empty()) {
    OUTRIDER_RETURN_IF_ERROR(load_tokens(options_.token_file, tenants_));
    OUTRIDER_RETURN_IF_ERROR(check_shares());
  }
  if (!options_.price_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(prices_, read_prices(options_.price_file));
  }
  OUTRIDER_ASSIGN_OR_RETURN(recorder_, Recorder::open(options_.record));
  if (!options_.device_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const DevicePower power, read_device_power(options_.device_file));
    watts_ = power.idle_w + power.computing_w(options_.threads);
  }
  if (options_.measure_energy) energy_ = ProcessorEnergy::open();
  metrics_.emplace(model_name(), prices_ ? &*prices_ : nullptr);
  return {};
}

Status Server::check_shares() const {
  const std::int64_t least = smallest_session_bytes(with_draft(target_));
  const std::vector<std::string> poor = tenants_.with_less_kv_than(least);
  if (poor.empty()) return {};
  return invalid_argument(options_.token_file + ": kv-memory of " + poor.front() +
                          " is less than one session of this model needs, " +
                          std::to_string(least) + " bytes; raise it, or leave it out");
}

void Server::reload_keys() {
  if (options_.token_file.empty()) return;
  const Status status = load_tokens(options_.token_file, tenants_);
  if (!status.ok()) {
    log(LogLevel::kError, "the keys stay as they were", {{"reason", status.to_string()}});
  }
  const Status shares = check_shares();
  if (!shares.ok()) log(LogLevel::kError, shares.message());
}

void Server::fill_scheduler_options() {
  SchedulerOptions& scheduler = options_.scheduler;
  scheduler.wall_clock = [] {
    return std::chrono::duration_cast<Duration>(
        std::chrono::system_clock::now().time_since_epoch());
  };
  if (!options_.token_file.empty()) {  // asked with each pass
    scheduler.kv.tenant_bytes = [this](const std::string& tenant) {
      return tenants_.limits_of(tenant).kv_bytes;
    };
    scheduler.on_rows = [this](const std::string& tenant, std::size_t rows, TimePoint now) {
      tenants_.charge(tenant, static_cast<double>(rows), now);
    };
    scheduler.tenant_ready_at = [this](const std::string& tenant) {
      return tenants_.rows_ready_at(tenant);
    };
  }
  if (energy_) scheduler.joules = [this] { return energy_->joules(); };
  scheduler.on_draft_failed = [](const Status& status) {
    log(LogLevel::kError, "the draft model failed; this server drafts without it from now on",
        {{"reason", status.to_string()}});
  };
  scheduler.on_verdict_gap = [this](Duration gap) { metrics_->observe_gap(gap); };
  scheduler.on_session_end = [this](const SessionRecord& record) {
    metrics_->observe(record);
    // The audit: who used how much of the device.
    log(LogLevel::kInfo, "session ended", audit_fields(record, prices_ ? &*prices_ : nullptr));
  };
}

Status Server::listen() {
  options_.rpc.tenants = &tenants_;
  options_.rpc.tracer = options_.tracer;
  options_.rpc.authenticator = options_.token_file.empty() ? nullptr : &authenticator_;
  if (target_.tokenizer) {
    constraints_.emplace([this] { return grammar_vocabulary(*target_.tokenizer); });
    options_.rpc.constraints = &*constraints_;
  }
  OUTRIDER_ASSIGN_OR_RETURN(rpc_, RpcServer::start(*engine_, faults_, options_.rpc));
  const ModelInfo& model = target_.model->info();
  if (options_.http && target_.tokenizer) {
    completions_.emplace(
        *engine_, *target_.tokenizer, faults_, clock_,
        CompletionServerOptions{
            .model_name = model_name(),
            .tokenizer_hash = target_.tokenizer_hash,
            .chat = target_.chat,
            .reading = options_.reading,
            .sampling = target_.generation.sampling,
            .context = model.max_positions,
            .max_choices = std::size_t{options_.scheduler.max_concurrent_sessions} +
                           options_.scheduler.max_queued_requests,
            .authenticator = options_.rpc.authenticator,
            .tenants = &tenants_,
            .levels = target_.levels.get(),
            .watts = watts_,
            .tracer = options_.tracer,
            .constraints = &*constraints_,
            .recorder = recorder_.get()});
  }
  if (options_.http) {
    OUTRIDER_ASSIGN_OR_RETURN(http_,
                              HttpServer::start(http_options(*options_.http), http_routes()));
  }
  if (options_.metrics) {
    const auto page = [this](const HttpRequest&) {
      return HttpResponse{.body = render_metrics(), .content_type = "text/plain; version=0.0.4"};
    };
    HttpCheck check;
    if (options_.metrics_need_key) {
      check = [this](HttpRequest& request) { return check_metrics_key(request); };
    }
    HttpServerOptions options = http_options(*options_.metrics);
    options.requires_tls = false;  // monitoring programs ask for http:// unless they are told
    OUTRIDER_ASSIGN_OR_RETURN(
        metrics_http_, HttpServer::start(options, {page_route("GET", "/metrics", page, check)}));
  }
  return {};
}

HttpServerOptions Server::http_options(const Address& listen) {
  HttpServerOptions http{.listen = listen};
  http.allowed_hosts = options_.allowed_hosts;
  http.allowed_origins = options_.allowed_origins;
  http.tls = rpc_->tls();
  http.on_refused = [this](const std::string& peer, const Status& why) {
    if (rpc_->tls() != nullptr) http_handshakes_failed_.fetch_add(1, std::memory_order_relaxed);
    faults_.refuse(peer, why);
  };
  return http;
}

std::vector<HttpRoute> Server::http_routes() {
  std::vector<HttpRoute> routes = health_routes([this] { return health(); });
  routes.push_back(
      page_route("GET", "/health", [this](const HttpRequest&) { return ready_page(health()); }));
  routes.back().is_health = true;
  routes.push_back(page_route("GET", "/metrics", [this](const HttpRequest&) {
    return error_response(not_found(
        options_.metrics ? "/metrics is on a port of its own: --metrics-port"
                         : "/metrics is off. Remedy: start the server with --metrics-port"));
  }));
  std::vector<HttpRoute> more =
      completions_ ? completions_->routes() : closed_openai_routes(kNoTokenizer);
  for (HttpRoute& route : more) routes.push_back(std::move(route));
  if (completions_) {
    routes.push_back(chat_page_route({.needs_key = !options_.token_file.empty()}));
  }
  return routes;
}

Status Server::check_metrics_key(const HttpRequest& request) {
  const auto known = authenticator_.find(request.bearer_key(), request.peer, Front::kMetrics);
  if (known.ok() && tenants_.limits_of((*known)->tenant).read_metrics) return {};
  if (known.status().code() == StatusCode::kResourceExhausted) return known.status();
  return unauthenticated(
      "a key is needed whose line in --token-file has the word read-metrics: "
      "Authorization: Bearer KEY");
}

std::string Server::model_name() const {
  const std::string& served = options_.served_model_name;
  return served.empty() ? target_.model->info().name : served;
}

Health Server::health() const {
  return {.alive = !is_hung(),
          .ready = ready_.load() && target_.model->check_unchanged().ok(),
          .version = Program::version(),
          .model_name = model_name(),
          .fingerprint = target_.model->info().fingerprint,
          .arithmetic_id = target_.model->info().arithmetic_id};
}

bool Server::is_hung() const {
  const Duration limit = options_.scheduler.pass_limit;
  return limit > Duration{0} && engine_->running_for() > limit;
}

std::string Server::render_metrics() {
  const RpcServerStats rpc = rpc_->stats();
  const FaultCounts counts = faults_.counts();
  return metrics_->render(
      {.scheduler = engine_->stats(),
       .calls_open = rpc.calls_open,
       .calls_refused = counts.refused,
       .calls_failed = counts.failed,
       .grpc_keys_refused = authenticator_.refused(Front::kGrpc),
       .openai_keys_refused = authenticator_.refused(Front::kOpenAi),
       .metrics_keys_refused = authenticator_.refused(Front::kMetrics),
       .tls_handshakes_failed =
           failed_handshakes() + http_handshakes_failed_.load(std::memory_order_relaxed),
       .grpc_errors = grpc_errors(),
       .connections_open = rpc.connections.open,
       .connections_refused = rpc.connections.refused,
       .log_lines_lost = lost_log_lines(),
       .traces = options_.tracer ? options_.tracer->counts() : Tracer::Counts()});
}

// Waits until a signal comes, or the device is lost.
Server::Event Server::await_event() {
  sigset_t signals = ending_signals();
  sigaddset(&signals, SIGHUP);
  const timespec poll{.tv_sec = 0, .tv_nsec = kWatchPoll.count()};
  TimePoint next_sign{};
  while (true) {
    if (clock_.now() >= next_sign) {
      notify_supervisor("WATCHDOG=1");
      next_sign = clock_.now() + kSignOfLife;
      if (!target_.model->check_unchanged().ok()) return Event::kBroken;
      if (keys_.changed()) reload_keys();
    }
    const int signal = sigtimedwait(&signals, nullptr, &poll);
    if (signal == SIGHUP) {
      reopen_log_file();
      reload_keys();
    } else if (signal > 0) {
      log(LogLevel::kInfo, "shutting down", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
      return Event::kSignal;
    }
    if (is_hung()) return Event::kHung;
    if (engine_->stats().failed_in_a_row >= kFailuresOfABrokenDevice) return Event::kBroken;
  }
}

void Server::end_sessions() {
  rpc_->set_serving(false);
  engine_->fail_all(unavailable("this server's device is lost; it starts anew"));
  rpc_->shutdown(kFarewell);
}

// Its compute thread cannot be joined, so nothing is torn down.
void Server::exit_hung() {
  log(LogLevel::kError, "a pass hangs; this process ends, to be started anew",
      {{"pass_s", to_seconds(engine_->running_for())},
       {"limit_s", to_seconds(options_.scheduler.pass_limit)},
       {"exit_code", kExitHung}});
  rpc_->set_serving(false);
  engine_->fail_all(unavailable("a pass hangs on this server; it starts anew"));
  clock_.sleep_until(clock_.now() + kFarewell / 2);
  std::_Exit(kExitHung);
}

bool Server::drain() {
  engine_->drain();
  const TimePoint deadline = clock_.now() + options_.shutdown_timeout;
  while (!engine_->wait_until_idle(kSignalPoll)) {
    if (clock_.now() >= deadline || signal_waits()) return false;
  }
  return true;
}

void Server::log_totals() const {
  const SchedulerStats stats = engine_->stats();
  log(LogLevel::kInfo, "served",
      {{"sessions", stats.sessions_opened},
       {"refused", stats.sessions_refused},
       {"prompt_tokens", stats.prompt_tokens},
       {"cached_tokens", stats.cached_tokens},
       {"completion_tokens", stats.completion_tokens},
       {"passes", stats.passes},
       {"rows", stats.rows},
       {"rows_pruned", stats.pruned.rows_ended},
       {"exits_computed", stats.exits_computed},
       {"reports_sent", stats.reports_sent},
       {"reports_deduplicated", stats.reports_deduplicated},
       {"reports_dropped", stats.reports_dropped},
       {"compute_s", to_seconds(stats.compute)}});
}

Status Server::run() {
  notify_supervisor("READY=1");
  switch (await_event()) {
    case Event::kHung:
      exit_hung();
    case Event::kBroken:
      end_sessions();
      OUTRIDER_RETURN_IF_ERROR(target_.model->check_unchanged());
      return internal_error("the device failed " + std::to_string(kFailuresOfABrokenDevice) +
                            " passes in a row; the log says how. Start the server anew");
    case Event::kSignal:
      break;
  }
  ready_.store(false);
  notify_supervisor("STOPPING=1");
  rpc_->set_serving(false);
  const bool busy = rpc_->stats().calls_open > 0;
  const bool finished = drain();
  if (!finished) {
    log(LogLevel::kWarning, "sessions cut by the shutdown",
        {{"sessions", engine_->stats().sessions_open}});
  }
  if (http_ && finished) http_->wait_until_answered(kFarewell);
  if (busy && finished) clock_.sleep_until(clock_.now() + kLinger);
  rpc_->shutdown(finished ? kFarewell : Duration{0});
  log_totals();
  return {};
}

}  // namespace outrider
