// The servers of one setting, each behind a link of its own: one for each set of flags.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/grid_plan.h"
#include "bench/link/link.h"
#include "bench/process/server_process.h"
#include "common/base/address.h"
#include "common/base/status.h"

namespace outrider {

// Members end in reverse order: a server runs in its link's namespace.
struct LinkedServer {
  std::unique_ptr<Link> link;             // null: somebody else's server
  std::unique_ptr<ServerProcess> server;  // null: somebody else's server
  Address address;                        // where edges reach it
};

class ServerPool final {
 public:
  // plan and setting must outlive the pool. core: the CPU that the servers run on.
  ServerPool(const GridPlan& plan, const GridSetting& setting, std::optional<int> core)
      : plan_(plan), setting_(setting), core_(core) {}

  // Started if there is none with these flags. Valid until stop() or its drop().
  Result<const LinkedServer*> find(const std::vector<std::string>& flags);

  // The server with these flags is not to be trusted any more; the next find() starts another.
  void drop(const std::vector<std::string>& flags);

  // Ends all servers; returns what they, and those dropped, counted of their emulated paces.
  PaceCounts stop();

 private:
  Result<LinkedServer> start(const std::vector<std::string>& flags) const;

  const GridPlan& plan_;
  const GridSetting& setting_;
  const std::optional<int> core_;
  std::map<std::vector<std::string>, LinkedServer> servers_;  // by their flags
  PaceCounts dropped_;
};

}  // namespace outrider
