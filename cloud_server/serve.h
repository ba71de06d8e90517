// The life of a server: listen, serve until a signal, drain, end.
//
// SIGTERM or SIGINT: the health service says NOT_SERVING, sessions are told to reconnect soon and
// may finish, new ones are refused with UNAVAILABLE; after shutdown_timeout what is left is cut. A
// second signal cuts at once.
//
// A pass that runs for longer than SchedulerOptions::pass_limit, or three passes in a row that the
// device fails: NOT_SERVING, streams end with UNAVAILABLE, so that edges go elsewhere or come back,
// and the process ends, with kExitHung or an error, for its supervisor to start anew.
//
// Thread rule: main thread. block_signals() before any other thread starts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "cloud_server/faults/fault_log.h"
#include "cloud_server/http/admin.h"
#include "cloud_server/http/metrics.h"
#include "cloud_server/openai/completion_server.h"
#include "cloud_server/rpc/server.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/verify/scheduler_options.h"

namespace outrider {

struct ServeOptions {
  SchedulerOptions scheduler;
  RpcServerOptions rpc;
  Duration shutdown_timeout = std::chrono::seconds(45);
  AdminOptions admin;
  AdminQuestions admin_questions;  // serve() answers is_alive, is_ready, metrics and answers itself
  // OpenAI's routes beside /health; null: there are none. Outlives serve().
  const Tokenizer* tokenizer = nullptr;
  CompletionServerOptions completions;
  ServerMetrics* metrics = nullptr;  // null: none are kept
  // Takes lines about clients' faults and our own, from any thread. Empty: they are counted only.
  FaultLog::Log log = {};
  std::function<void()> on_reload = {};  // SIGHUP came
};

// The exit code of a server whose device hangs: nothing but a new process helps.
inline constexpr int kExitHung = 75;

// SIGTERM and SIGINT wait until serve() asks for them.
void block_signals();

// Takes as many file descriptors as the system allows this process: gRPC 1.51 never accepts another
// connection once it has run out of them (CVE-2023-4785). Call it before the server listens.
void raise_descriptor_limit();

// Where it listens.
struct Listening {
  Address rpc;
  const AdminServer& admin;
};

// Blocks until the end. on_ready hears once where the server listens.
Status serve(Model& model, const ServeOptions& options,
             const std::function<void(const Listening&)>& on_ready);

}  // namespace outrider
