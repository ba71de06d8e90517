// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/cli/notify.h"
#include "common/cli/program.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/serve/edge_server.h"
#include "edge_client/verifiers/remote_probe.h"

namespace outrider {
namespace {

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

}  // namespace

Result<int> serve_command(const AnswerOptions& options, const ServingOptions& serve,
                          Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(const GenerationConfig config, generation_config(options));
  if (!is_loopback(serve.host) && !options.insecure) {
    return invalid_argument("--host " + serve.host +
                            " listens beyond this machine, and nobody is asked for a key; add "
                            "--insecure if the network is trusted");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  const std::string model = !serve.model_name.empty() ? serve.model_name
                            : !config.model.empty()   ? name_of_model(config.model)
                                                      : name_of_model(config.tokenizer);
  std::unique_ptr<RemoteProbe> probe;
  if (mode_of(config) != Mode::kOffline) {
    OUTRIDER_ASSIGN_OR_RETURN(RemoteOptions remote, remote_options(config));
    probe = std::make_unique<RemoteProbe>(std::move(remote));
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<EdgeServer> server,
      EdgeServer::start(
          {.listen = {serve.host, static_cast<std::uint16_t>(serve.port)},
           .model_name = model,
           .chat_template = options.chat_template,
           .defaults = config.answer,
           .queue = {.max_waiting = static_cast<std::size_t>(serve.max_queued_requests)},
           .probe = probe.get(),
           .version = Program::version()},
          setup->parts()));
  std::printf("outrider-edge\n  model        %s\n  listening    http://%s\n  ready\n",
              model.c_str(), server->address().to_string().c_str());
  std::fflush(stdout);
  notify_supervisor("READY=1");
  UntilInterrupted until;
  interrupts.on_interrupt([&] { until.interrupt(); });
  until.wait([&server] { return server->is_alive(); });
  notify_supervisor("STOPPING=1");
  return kExitOk;
}

}  // namespace outrider
