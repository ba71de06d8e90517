// The servers that a load goes to: an outrider-server that it starts, or running ones that flags
// name; and the keys by which clients are tenants.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/load/load_figures.h"
#include "bench/load/load_plan.h"
#include "common/base/address.h"
#include "common/base/status.h"
#include "emulation/process/server_process.h"

namespace outrider {

struct TargetFlags {
  std::string model = "models/demo-target";
  std::string dtype = "auto";
  int threads = 0;                 // 0: all cores
  std::string draft_model = {};    // beside the target; empty: none
  std::string draft_source = {};   // as outrider-server's flag; empty: its default
  std::optional<Address> server;   // of a running outrider-server's gRPC; nothing: start one
  std::optional<Address> openai;   // of a running server's OpenAI routes
  std::optional<Address> metrics;  // of a running outrider-server's /metrics
  std::string key_file;            // of running servers; empty: none
  std::size_t tenants = 0;         // of a server that is started; 0: it asks for no keys
  // Whether a server that is started keeps prompts for others: of two loads with the same prompts
  // the second one would find those of the first.
  bool shares_prefixes = true;

  bool starts_server() const { return !server && !openai; }
};

void add_target_flags(CLI::App& command, TargetFlags& target);

// "http://HOST:PORT", with or without a slash behind it. INVALID_ARGUMENT names what is wrong.
Result<Address> parse_http_url(const std::string& text);

// A line for each key: the tenant's name, a blank, the key. INVALID_ARGUMENT names the line.
using TenantKeys = std::vector<std::pair<std::string, std::string>>;
Result<TenantKeys> parse_keys(const std::string& text, const std::string& file);

class LoadTarget final {
 public:
  // Starts the server, with room for all clients of `shape`, or takes the named ones.
  // INVALID_ARGUMENT for clients to which no address is named, a greedy tenant without keys, and
  // keys for another machine: TLS is not spoken here.
  static Result<std::unique_ptr<LoadTarget>> open(const TargetFlags& flags, const LoadShape& shape);
  ~LoadTarget();
  LoadTarget(const LoadTarget&) = delete;
  LoadTarget& operator=(const LoadTarget&) = delete;

  // Those that clients of the shape need are there.
  const Address& rpc() const { return *rpc_; }
  const Address& openai() const { return *openai_; }

  // The key of that client among those of its kind; empty if it has none. Clients take the tenants'
  // keys in turn, greedy sessions the last one.
  std::string key_of(ClientKind kind, std::size_t number) const;

  // Nothing if no page of metrics was named. Errors: those of reading it.
  Result<std::optional<ServerCounters>> counters() const;

 private:
  LoadTarget() = default;

  Status start(const TargetFlags& flags, const LoadShape& shape);
  Status make_keys(std::size_t tenants);

  std::unique_ptr<ServerProcess> process_;  // null: the servers run already
  std::optional<Address> rpc_;
  std::optional<Address> openai_;
  std::optional<Address> metrics_;
  bool has_greedy_ = false;
  TenantKeys keys_;
  std::string token_file_;  // of the server that was started; empty: none
};

}  // namespace outrider
