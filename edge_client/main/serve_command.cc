// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/address.h"
#include "common/base/files.h"
#include "common/base/mutex.h"
#include "common/serving/cli/notify.h"
#include "common/serving/cli/program.h"
#include "common/serving/credentials/offered_tls_files.h"
#include "common/serving/http/listener.h"
#include "common/serving/telemetry/log.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/serve/edge_server.h"
#include "edge_client/verifiers/remote_probe.h"
#include "proto/otlp/otlp_sender.h"

namespace outrider {
namespace {

// How long the server may take to send its chat template before this one is ready.
constexpr Duration kServersTurn = std::chrono::seconds(5);
constexpr Duration kDrainPoll = std::chrono::milliseconds(100);
// In which answers that were cut end, and their clients read it.
constexpr Duration kFarewell = std::chrono::seconds(2);

// Ends with the first signal.
class UntilInterrupted final {
 public:
  void interrupt() {
    const MutexLock lock(mu_);
    over_ = true;
    changed_.notify_all();
  }
  // Meanwhile calls `look` every second. An error of its own ends the wait.
  Status wait(const std::function<Status()>& look) {
    MutexLock lock(mu_);
    while (!over_) {
      lock.unlock();
      const Status status = look();
      lock.lock();
      if (!status.ok()) return status;
      if (over_) break;
      changed_.wait_until(mu_, std::chrono::steady_clock::now() + std::chrono::seconds(1));
    }
    return {};
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool over_ OUTRIDER_GUARDED_BY(mu_) = false;
};

// Requests that have come are answered until the time is over or a second signal comes.
void drain(EdgeServer& server, Duration timeout, Interrupts& interrupts) {
  std::atomic<bool> cut{false};
  interrupts.on_interrupt([&cut] { cut = true; });
  server.drain();
  SystemClock clock;
  const TimePoint deadline = clock.now() + timeout;
  while (!server.wait_until_idle(kDrainPoll)) {
    if (server.is_alive()) notify_supervisor("WATCHDOG=1");
    if (!cut && clock.now() < deadline) continue;
    log(LogLevel::kWarning, "answers cut by the shutdown");
    server.cut();
    server.wait_until_idle(kFarewell);
    break;
  }
  server.wait_until_answered(kFarewell);
  interrupts.on_interrupt(nullptr);
}

// Tells people and the supervisor about an edge's state, once for each change.
class Readiness final {
 public:
  // own: null if this device has no target. A target elsewhere answers if its own cannot.
  Readiness(TargetChat& chat, const LocalTarget* own, bool is_offline)
      : chat_(chat), own_(own), is_offline_(is_offline) {}

  // Why every answer would fail, beside the link's reasons. Any thread.
  Status check() {
    if (is_offline_) return own_->check_unchanged();
    return chat_.check_server();
  }
  // At the start, and every second. An error: only a new start helps.
  Status look() {
    if (is_offline_) OUTRIDER_RETURN_IF_ERROR(own_->check_unchanged());
    Status now = is_offline_ ? Status() : chat_.check_server();
    if (now.ok() && own_ == nullptr && !was_ready_) now = chat_.away();
    if (now.ok() && !std::exchange(was_ready_, true)) {
      std::printf("  ready\n");
      std::fflush(stdout);
    }
    if (now.message() != said_.message() && !now.ok()) {
      log(LogLevel::kWarning, "not ready", {{"reason", now.message()}});
    }
    said_ = now;
    return {};
  }

 private:
  TargetChat& chat_;
  const LocalTarget* const own_;
  const bool is_offline_;
  bool was_ready_ = false;
  Status said_;
};

// TLS for clients, and who may be a client, as the flags say.
Status set_access(const ServingOptions& serve, bool insecure, HttpServerOptions& http) {
  OUTRIDER_RETURN_IF_ERROR(check_is_tcp(http.listen.host));
  OUTRIDER_RETURN_IF_ERROR(check_tls_files(serve.tls));
  if (!is_loopback(http.listen.host) && !insecure && serve.tls.client_ca.empty()) {
    return invalid_argument("--host " + http.listen.host +
                            " listens beyond this machine, and nobody is asked for a key; add "
                            "--http-tls-client-ca with --http-tls-cert and --http-tls-key, or "
                            "--insecure if the network is trusted");
  }
  if (!serve.tls.wanted()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(http.tls, OfferedTlsFiles::watch(serve.tls, OfferedTlsFiles::kInterval,
                                                             [](const std::string& line) {
                                                               log(LogLevel::kWarning, line);
                                                             }));
  http.on_refused = [](const std::string& peer, const Status& why) {
    log(LogLevel::kDebug, "a client was refused", {{"client", peer}, {"reason", why.message()}});
  };
  return {};
}

// One block, for people. sampling: an error while the target is not known.
void print_start(EdgeServer& server, bool has_tls, const Result<SamplingParams>& sampling) {
  const std::string model = server.model_name();
  std::printf("outrider-edge\n  model        %s\n", model.empty() ? "the server's" : model.c_str());
  if (sampling.ok() && sampling->temperature > 0) {
    std::printf("  sampling     %s\n", to_text(all_of(*sampling)).c_str());
  }
  std::printf("  listening    %s://%s\n", has_tls ? "https" : "http",
              server.address().to_string().c_str());
  std::fflush(stdout);
}

}  // namespace

Result<int> serve_command(const AnswerOptions& options, const ServingOptions& serve,
                          Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(const GenerationConfig config, generation_config(options));
  EdgeServerOptions serving = serve.server;
  OUTRIDER_RETURN_IF_ERROR(set_access(serve, options.insecure, serving.http));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Tracer> tracer,
      start_tracing(serve.otlp_traces_endpoint, "outrider-edge", Program::version(),
                    [](const std::string& line) { log(LogLevel::kWarning, line); }));
  serving.tracer = tracer.get();
  raise_descriptor_limit();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  // So that the first request need not be refused for a template that is on its way.
  setup->chat().settle(kServersTurn);
  OUTRIDER_RETURN_IF_ERROR(setup->chat().check_server());
  const bool is_offline = mode_of(config) == Mode::kOffline;
  Readiness readiness(setup->chat(), setup->target(), is_offline);
  serving.check = [&readiness] { return readiness.check(); };
  serving.own_name = setup->target() != nullptr
                         ? setup->target()->info().name
                         : last_name(!config.model.empty() ? config.model : config.tokenizer);
  if (serving.own_name.empty()) serving.own_name = "outrider";
  if (setup->stock() != nullptr) {
    const std::string& model = config.server_model;
    serving.own_name = marked_name(model.empty() ? "the server's" : model, config.server_api);
  }
  serving.chat = &setup->chat();
  if (is_offline) serving.context = setup->target()->info().max_positions;
  serving.defaults = config.answer;
  serving.version = Program::version();
  if (ElasticTarget* const elastic = setup->parts().elastic) {
    if (serving.served_name.empty()) serving.served_name = elastic->name();
    const std::vector<LevelProfile> profile = elastic->book().profile();
    for (const ElasticLevel& level : elastic->levels()) {
      serving.levels.push_back(
          {level.name, level.divergence, level.agreement, profile[serving.levels.size()].quality});
    }
  }
  std::unique_ptr<RemoteProbe> probe;
  if (!is_offline) {
    OUTRIDER_ASSIGN_OR_RETURN(probe, server_probe(config));
  }
  serving.probe = probe.get();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeServer> server,
                            EdgeServer::start(serving, setup->parts()));
  UntilInterrupted until;
  interrupts.on_interrupt([&] { until.interrupt(); });  // a supervisor may end it once it is ready
  print_start(*server, serve.tls.wanted(),
              setup->chat().sampling(config.answer.text.choice.sampling));
  notify_supervisor("READY=1");
  const Status lost = until.wait([&] {
    if (server->is_alive()) notify_supervisor("WATCHDOG=1");
    return readiness.look();
  });
  notify_supervisor("STOPPING=1");
  drain(*server, serve.shutdown_timeout, interrupts);
  OUTRIDER_RETURN_IF_ERROR(lost);
  return kExitOk;
}

}  // namespace outrider
