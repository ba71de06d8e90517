// The servers of one setting, each behind an emulated link of its own: one for each set of flags.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/grid_plan.h"
#include "bench/link/delay_link.h"
#include "bench/process/server_process.h"
#include "common/base/status.h"

namespace outrider {

struct LinkedServer {
  std::unique_ptr<ServerProcess> server;
  std::unique_ptr<DelayLink> link;
};

class ServerPool final {
 public:
  // plan and setting must outlive the pool. core: the CPU that the servers run on.
  ServerPool(const GridPlan& plan, const GridSetting& setting, std::optional<int> core)
      : plan_(plan), setting_(setting), core_(core) {}

  // Started if there is none with these flags. Valid until stop().
  Result<const LinkedServer*> find(const std::vector<std::string>& flags);

  // Ends all servers; returns what they counted of their emulated paces.
  PaceCounts stop();

 private:
  Result<LinkedServer> start(const std::vector<std::string>& flags) const;

  const GridPlan& plan_;
  const GridSetting& setting_;
  const std::optional<int> core_;
  std::map<std::vector<std::string>, LinkedServer> servers_;  // by their flags
};

}  // namespace outrider
