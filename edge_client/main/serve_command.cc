// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/cli/notify.h"
#include "common/cli/program.h"
#include "common/http/listener.h"
#include "common/telemetry/log.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/serve/edge_server.h"
#include "edge_client/verifiers/remote_probe.h"

namespace outrider {
namespace {

// How long the server may take to send its chat template before this one is ready.
constexpr Duration kServersTurn = std::chrono::seconds(5);
constexpr Duration kDrainPoll = std::chrono::milliseconds(100);
// In which answers that were cut end, and their clients read it.
constexpr Duration kFarewell = std::chrono::seconds(2);

// The directory's or file's own name.
std::string name_of_model(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string last = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return last.empty() ? "outrider" : last;
}

// Ends with the first signal.
class UntilInterrupted final {
 public:
  void interrupt() {
    const MutexLock lock(mu_);
    over_ = true;
    changed_.notify_all();
  }
  // Meanwhile the supervisor hears that this process lives, while it does.
  void wait(const std::function<bool()>& is_alive) {
    const MutexLock lock(mu_);
    while (!over_) {
      if (is_alive()) notify_supervisor("WATCHDOG=1");
      changed_.wait_until(mu_, std::chrono::steady_clock::now() + std::chrono::seconds(1));
    }
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool over_ OUTRIDER_GUARDED_BY(mu_) = false;
};

// What is asked already is answered, until the time is over or a second signal comes.
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

}  // namespace

Result<int> serve_command(const AnswerOptions& options, const ServingOptions& serve,
                          Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(const GenerationConfig config, generation_config(options));
  EdgeServerOptions serving = serve.server;
  if (!is_loopback(serving.http.listen.host) && !options.insecure) {
    return invalid_argument("--host " + serving.http.listen.host +
                            " listens beyond this machine, and nobody is asked for a key; add "
                            "--insecure if the network is trusted");
  }
  raise_descriptor_limit();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  // So that the first request need not be refused for a template that is on its way.
  setup->chat().settle(kServersTurn);
  serving.own_name = setup->target() != nullptr
                         ? setup->target()->info().name
                         : name_of_model(!config.model.empty() ? config.model : config.tokenizer);
  serving.chat = &setup->chat();
  serving.defaults = config.answer;
  serving.version = Program::version();
  if (ElasticTarget* const elastic = setup->parts().elastic) {
    if (serving.served_name.empty()) serving.served_name = elastic->name();
    for (const ElasticLevel& level : elastic->levels()) {
      serving.levels.push_back({level.name, level.divergence, level.agreement});
    }
  }
  std::unique_ptr<RemoteProbe> probe;
  if (mode_of(config) != Mode::kOffline) {
    OUTRIDER_ASSIGN_OR_RETURN(RemoteOptions remote, remote_options(config));
    probe = std::make_unique<RemoteProbe>(std::move(remote));
  }
  serving.probe = probe.get();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeServer> server,
                            EdgeServer::start(serving, setup->parts()));
  UntilInterrupted until;
  interrupts.on_interrupt([&] { until.interrupt(); });  // a supervisor may end it once it is ready
  std::printf("outrider-edge\n  model        %s\n  listening    http://%s\n  ready\n",
              server->model_name().c_str(), server->address().to_string().c_str());
  std::fflush(stdout);
  notify_supervisor("READY=1");
  until.wait([&server] { return server->is_alive(); });
  notify_supervisor("STOPPING=1");
  drain(*server, serve.shutdown_timeout, interrupts);
  return kExitOk;
}

}  // namespace outrider
