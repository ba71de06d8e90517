// The servers of one setting, each behind a link of its own: one for each kind that is wished for.
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

// What a server is to be.
struct ServerWish {
  std::vector<std::string> flags = {};
  bool draft_alone = false;  // the draft at its own pace instead of the target, without delay
  bool without_exits = false;

  friend auto operator<=>(const ServerWish&, const ServerWish&) = default;
};

// Members end in reverse order: a server runs in its link's namespace.
struct LinkedServer {
  std::unique_ptr<Link> link;             // null: somebody else's server
  std::unique_ptr<ServerProcess> server;  // null: somebody else's server
  Address address;                        // where edges reach it
  Address own_address;                    // where programs beside it do; empty: somebody else's
};

class ServerPool final {
 public:
  // plan and setting must outlive the pool. core: the CPU that the servers run on.
  ServerPool(const GridPlan& plan, const GridSetting& setting, std::optional<int> core)
      : plan_(plan), setting_(setting), core_(core) {}

  // Started if there is none like it. Valid until stop() or its drop().
  Result<const LinkedServer*> find(const ServerWish& wish);

  // That server is not to be trusted any more; the next find() starts another.
  void drop(const ServerWish& wish);

  // Ends all servers; returns what they, and those dropped, counted of their emulated paces.
  PaceCounts stop();

 private:
  std::vector<std::string> model_arguments(const ServerWish& wish) const;
  Result<LinkedServer> start(const ServerWish& wish) const;

  const GridPlan& plan_;
  const GridSetting& setting_;
  const std::optional<int> core_;
  std::map<ServerWish, LinkedServer> servers_;
  PaceCounts dropped_;
};

}  // namespace outrider
