// What the flags of outrider-server say, before anything is made of them.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cloud_server/access.h"
#include "cloud_server/target.h"
#include "common/verify/scheduler_options.h"

namespace outrider {

struct ServerFlags {
  TargetOptions target;
  std::string pace;
  std::string host = "127.0.0.1";
  int port = 8001;
  AccessOptions access;
  int http_port = -1;  // none
  int metrics_port = -1;
  std::string metrics_host;  // empty: host
  std::string price_file;    // empty: nothing has a price
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

// flags: outlives the parsing.
void add_flags(CLI::App& app, ServerFlags& flags);

}  // namespace outrider
