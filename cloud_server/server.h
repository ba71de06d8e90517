// outrider-server as one object: the engine, who may use it, gRPC, and two HTTP servers.
//
//   auto server = *Server::start(target, options);  ..  Status ended = server->run();
//
// On the address `http`, where there is one:
//   /health/live  /health/ready  /version   health_routes.h; alive: passes come to their end;
//                                           ready: new sessions are welcome
//   /health                                 as /health/ready
//   OpenAI's routes                         completion_server.h
// On the address `metrics`: /metrics, in Prometheus' text format.
// Where gRPC has TLS, both have it too, with its certificate, key and authorities: on ports of
// their own and not on gRPC's by ALPN, because gRPC 1.51 ends TLS itself and would get the
// connections of HTTP's clients, which have bounds of their own. Health and /metrics are also
// answered in plaintext.
//
// SIGTERM or SIGINT: the health service says NOT_SERVING, sessions are told to reconnect soon and
// may finish, new ones are refused with UNAVAILABLE; after shutdown_timeout what is left is cut. A
// second signal cuts at once. SIGHUP: the keys are read and the log file is opened again.
//
// A pass that runs for longer than SchedulerOptions::pass_limit, three passes in a row that the
// device fails, or weights that were cut short: NOT_SERVING, streams end with UNAVAILABLE, so that
// edges go elsewhere or come back, and the process ends, with kExitHung or an error, for its
// supervisor to start anew.
//
// Thread rule: main thread. block_signals() before any other thread starts, StartSignals until
// run(). Ownership: the target outlives it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cloud_server/access.h"
#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "cloud_server/faults/fault_log.h"
#include "cloud_server/http/metrics.h"
#include "cloud_server/openai/completion_server.h"
#include "cloud_server/rpc/server.h"
#include "cloud_server/target.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/verify/scheduling/engine.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/serving/http/health_routes.h"
#include "common/serving/http/server.h"
#include "common/serving/ledger/processor_energy.h"
#include "common/serving/prices/device_power.h"
#include "common/serving/prices/prices.h"
#include "common/serving/record/recorder.h"
#include "common/serving/tools/answer_reading.h"

namespace outrider {

struct ServerOptions {
  SchedulerOptions scheduler;                   // its functions are the server's
  RpcServerOptions rpc;                         // its authenticator and tenants are the server's
  std::optional<Address> http = {};             // nothing: there are no such pages
  std::optional<Address> metrics = {};          // nothing: nor /metrics
  std::vector<std::string> allowed_hosts = {};  // as HttpServerOptions says
  std::vector<std::string> allowed_origins = {};
  AnswerReading reading = {};
  std::string served_model_name = {};  // empty: the model's own
  std::string token_file = {};         // empty: nobody is asked for a key
  bool throttle_wrong_keys = true;     // as Authenticator says
  bool metrics_need_key = false;       // one that may read them
  std::string price_file = {};         // empty: nothing has a price
  RecordOptions record = {};           // of answers over HTTP
  std::string device_file = {};        // its power; empty: not known
  int threads = 1;                     // that compute, for its power
  bool measure_energy = false;         // of this machine's processors
  Tracer* tracer = nullptr;            // outlives the server; null: nothing is traced
  Duration shutdown_timeout = std::chrono::seconds(45);
};

// The exit code of a server whose device hangs: nothing but a new process helps.
inline constexpr int kExitHung = 75;

// SIGTERM, SIGINT and SIGHUP wait until run() asks for them.
void block_signals();

// While run() does not ask for them yet: SIGTERM and SIGINT end the process at once, as they end
// programs that do not block them.
class StartSignals final {
 public:
  StartSignals();

 private:
  std::jthread thread_;
};

class Server final {
 public:
  // Listens. Errors: of files that are bad, and addresses that cannot be listened on.
  static Result<std::unique_ptr<Server>> start(const LoadedTarget& target, ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const Address& rpc_address() const { return rpc_->address(); }
  // Null: it does not listen there.
  const Address* http_address() const { return http_ ? &http_->address() : nullptr; }
  const Address* metrics_address() const {
    return metrics_http_ ? &metrics_http_->address() : nullptr;
  }
  bool offers_completions() const { return completions_.has_value(); }

  // Serves until a signal comes or the device is lost. Blocks.
  Status run();

 private:
  enum class Event : std::uint8_t { kSignal, kHung, kBroken };

  Server(const LoadedTarget& target, ServerOptions options);
  Status read_files();
  void fill_scheduler_options();
  Status listen();
  std::vector<HttpRoute> http_routes();
  // On an address, with TLS as gRPC has it, and the rules for hosts and origins.
  HttpServerOptions http_options(const Address& listen);
  void reload_keys();
  // A tenant that can never open a session would learn it from refusals only.
  Status check_shares() const;
  Status check_metrics_key(const HttpRequest& request);
  std::string model_name() const;  // as clients, edges and metrics read it
  Health health() const;
  std::string render_metrics();
  bool is_hung() const;
  Event await_event();
  void end_sessions();
  [[noreturn]] void exit_hung();
  // True if all sessions finished in time.
  bool drain();
  void log_totals() const;

  const LoadedTarget& target_;
  ServerOptions options_;
  SystemClock clock_;
  FaultLog faults_;
  Tenants tenants_;
  Authenticator authenticator_;
  FileWatch keys_;  // looks before they are read
  std::optional<Prices> prices_;
  std::unique_ptr<Recorder> recorder_;
  double watts_ = 0;  // while it answers; 0: not known
  std::optional<ProcessorEnergy> energy_;
  std::optional<ServerMetrics> metrics_;
  std::atomic<bool> ready_{true};
  std::atomic<std::uint64_t> http_handshakes_failed_{0};
  std::optional<ConstraintCompiler> constraints_;  // nothing: the target has no tokenizer
  std::optional<VerifyEngine> engine_;
  std::unique_ptr<RpcServer> rpc_;
  std::optional<CompletionServer> completions_;
  // Last: they end before what their routes use.
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<HttpServer> metrics_http_;
};

}  // namespace outrider
