// What the flags of outrider-server say, before anything is made of them.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cloud_server/access.h"
#include "cloud_server/target.h"
#include "common/verify/scheduler_types.h"

namespace outrider {

struct ServerFlags {
  TargetOptions target;
  std::string host = "127.0.0.1";
  int port = 8001;
  AccessOptions access;
  int http_port = -1;  // none
  int metrics_port = -1;
  std::string metrics_host;  // empty: host
  std::vector<std::string> allowed_hosts;
  std::string served_model_name;  // empty: the model's
  std::string price_file;         // empty: nothing has a price
  std::uint32_t max_concurrent_sessions = 8;
  std::uint32_t max_draft_tokens = 64;
  bool pad_frames = false;
  std::size_t max_calls_per_peer = 256;
  std::size_t max_connections = 1024;
  double max_connection_age = 3600;
  double max_connection_age_grace = 300;
  double max_connection_idle = 300;
  double shutdown_timeout = 45;
  double pass_limit = 120;
  double session_timeout = 120;
  std::string kv_cache_memory = "auto";
  ReportQueue server_queue = ReportQueue::kPriority;
  ExitScore exit_score = ExitScore::kCalibrated;
  double prune_below = 0;
};

// What a program that is a server brings along beyond outrider-server's own.
struct ServerParts {
  const char* program = "outrider-server";
  // Adds flags; they fill the server's.
  std::function<void(CLI::App& app, ServerFlags& flags)> add_flags = {};
};

// flags: outlives the parsing.
void add_flags(CLI::App& app, ServerFlags& flags, const ServerParts& parts);

}  // namespace outrider
