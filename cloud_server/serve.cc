// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/serve.h"

#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "common/cli/notify.h"
#include "common/telemetry/log.h"
#include "common/verify/engine.h"
#include "proto/grpc_log.h"

namespace outrider {
namespace {

// How often a draining server looks for a second signal.
constexpr Duration kSignalPoll = std::chrono::milliseconds(50);
// How often a serving one looks for a device that hangs.
constexpr Duration kWatchPoll = std::chrono::milliseconds(100);
// How often the supervisor is told that it goes well.
constexpr Duration kSignOfLife = std::chrono::seconds(1);
// A CUDA error of an illegal address, say, fails every later call of the process.
constexpr std::uint64_t kFailuresOfABrokenDevice = 3;
// For the last words of streams whose sessions are over.
constexpr Duration kFarewell = std::chrono::seconds(1);
// Until edges have read them: one that still acknowledges into a closed connection loses what it
// has not read.
constexpr Duration kLinger = std::chrono::milliseconds(300);

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

enum class Event : std::uint8_t { kSignal, kHung, kBroken };

// Until a signal comes, or the device is lost.
Event await_event(const VerifyEngine& engine, const ServeOptions& options) {
  const Duration pass_limit = options.scheduler.pass_limit;
  sigset_t signals = ending_signals();
  sigaddset(&signals, SIGHUP);
  const timespec poll{.tv_sec = 0, .tv_nsec = kWatchPoll.count()};
  SystemClock clock;
  TimePoint next_sign{};
  while (true) {
    if (clock.now() >= next_sign) {
      notify_supervisor("WATCHDOG=1");
      next_sign = clock.now() + kSignOfLife;
    }
    const int signal = sigtimedwait(&signals, nullptr, &poll);
    if (signal == SIGHUP) {
      if (options.on_reload) options.on_reload();
    } else if (signal > 0) {
      log(LogLevel::kInfo, "shutting down", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
      return Event::kSignal;
    }
    if (pass_limit > Duration{0} && engine.running_for() > pass_limit) return Event::kHung;
    if (engine.stats().failed_in_a_row >= kFailuresOfABrokenDevice) return Event::kBroken;
  }
}

Result<std::unique_ptr<AdminServer>> start_admin(const ServeOptions& options,
                                                 const VerifyEngine& engine,
                                                 const RpcServer& server, const FaultLog& faults,
                                                 CompletionServer* completions,
                                                 const std::atomic<bool>& ready) {
  AdminQuestions questions = options.admin_questions;
  if (completions != nullptr) {
    questions.answers = [completions](const HttpRequest& request,
                                      const std::shared_ptr<HttpExchange>& exchange) {
      return completions->handle(request, exchange);
    };
  }
  questions.is_alive = [&engine, limit = options.scheduler.pass_limit] {
    return limit <= Duration{0} || engine.running_for() <= limit;
  };
  questions.is_ready = [&ready] { return ready.load(); };
  const auto keys_refused = [authenticator = options.rpc.authenticator](Front front) {
    return authenticator == nullptr ? 0 : authenticator->refused(front);
  };
  questions.metrics = [&, keys_refused] {
    const RpcServerStats rpc = server.stats();
    const FaultCounts counts = faults.counts();
    if (options.metrics == nullptr) return std::string();
    return options.metrics->render({.scheduler = engine.stats(),
                                    .kv_bytes_bound = options.scheduler.kv_cache_bytes,
                                    .calls_open = rpc.calls_open,
                                    .calls_refused = counts.refused,
                                    .calls_failed = counts.failed,
                                    .grpc_keys_refused = keys_refused(Front::kGrpc),
                                    .openai_keys_refused = keys_refused(Front::kOpenAi),
                                    .metrics_keys_refused = keys_refused(Front::kMetrics),
                                    .tls_handshakes_failed = failed_handshakes(),
                                    .grpc_errors = grpc_errors(),
                                    .connections_open = rpc.connections.open,
                                    .connections_refused = rpc.connections.refused,
                                    .log_lines_lost = lost_log_lines()});
  };
  return AdminServer::start(options.admin, std::move(questions));
}

void end_sessions(VerifyEngine& engine, RpcServer& server) {
  server.set_serving(false);
  engine.fail_all(unavailable("this server's device is lost; it starts anew"));
  server.shutdown(kFarewell);
}

// Its compute thread cannot be joined, so nothing is torn down.
[[noreturn]] void exit_hung(VerifyEngine& engine, RpcServer& server, Duration pass_limit) {
  log(LogLevel::kError, "a pass hangs; this process ends, to be started anew",
      {{"pass_s", to_seconds(engine.running_for())},
       {"limit_s", to_seconds(pass_limit)},
       {"exit_code", kExitHung}});
  server.set_serving(false);
  engine.fail_all(unavailable("a pass hangs on this server; it starts anew"));
  SystemClock clock;
  clock.sleep_until(clock.now() + kFarewell / 2);
  std::_Exit(kExitHung);
}

// True if all sessions finished in time.
bool drain(VerifyEngine& engine, Clock& clock, Duration timeout) {
  engine.drain();
  const TimePoint deadline = clock.now() + timeout;
  while (!engine.wait_until_idle(kSignalPoll)) {
    if (clock.now() >= deadline || signal_waits()) return false;
  }
  return true;
}

void log_totals(const SchedulerStats& stats) {
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

}  // namespace

void block_signals() {
  sigset_t signals = ending_signals();
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  const bool raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
  log(LogLevel::kDebug, raised ? "file descriptors" : "file descriptors could not be raised",
      {{"before", before}, {"limit", limit.rlim_cur}});
}

Status serve(Model& model, const ServeOptions& options,
             const std::function<void(const Listening&)>& on_ready) {
  SystemClock clock;
  FaultLog faults(options.log);
  VerifyEngine engine(model, options.scheduler, clock);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<RpcServer> server,
                            RpcServer::start(engine, faults, options.rpc));
  std::atomic<bool> ready{true};
  std::optional<CompletionServer> completions;
  if (options.tokenizer != nullptr) {
    completions.emplace(engine, *options.tokenizer, faults, options.completions);
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<AdminServer> admin,
      start_admin(options, engine, *server, faults, completions ? &*completions : nullptr, ready));
  on_ready({server->address(), *admin});
  notify_supervisor("READY=1");
  switch (await_event(engine, options)) {
    case Event::kHung:
      exit_hung(engine, *server, options.scheduler.pass_limit);
    case Event::kBroken:
      end_sessions(engine, *server);
      return internal_error("the device failed " + std::to_string(kFailuresOfABrokenDevice) +
                            " passes in a row; the log says how. Start the server anew");
    case Event::kSignal:
      break;
  }
  ready.store(false);
  notify_supervisor("STOPPING=1");
  server->set_serving(false);
  const bool busy = server->stats().calls_open > 0;
  const bool finished = drain(engine, clock, options.shutdown_timeout);
  if (!finished) {
    log(LogLevel::kWarning, "sessions cut by the shutdown",
        {{"sessions", engine.stats().sessions_open}});
  }
  if (busy && finished) clock.sleep_until(clock.now() + kLinger);
  server->shutdown(finished ? kFarewell : Duration{0});
  log_totals(engine.stats());
  return {};
}

}  // namespace outrider
