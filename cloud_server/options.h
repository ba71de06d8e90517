// The flags of outrider-server as they were given.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cloud_server/server.h"
#include "cloud_server/target.h"

namespace outrider {

// The server's options unless a flag changes them.
ServerOptions standing_options();

struct ServerFlags {
  TargetOptions target;
  // Without what the target decides: its tokenizer, exits, and the memory of its caches.
  ServerOptions server = standing_options();
  bool insecure = false;
  std::optional<std::uint16_t> http_port;  // nothing: no such pages
  std::optional<std::uint16_t> metrics_port;
  std::string metrics_host;          // empty: the server's
  std::string otlp_traces_endpoint;  // empty: the environment's
  std::string kv_cache_memory = "auto";
  std::optional<DraftSource> draft_source;  // nothing: the model, if there is one, and look-up
};

// The parts that another server program adds to outrider-server's own.
struct ServerParts {
  const char* program = "outrider-server";
  // Adds flags; they fill the server's.
  std::function<void(CLI::App& app, ServerFlags& flags)> add_flags = {};
};

// flags: outlives the parsing.
void add_flags(CLI::App& app, ServerFlags& flags, const ServerParts& parts);

}  // namespace outrider
