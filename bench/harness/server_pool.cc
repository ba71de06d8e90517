// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/server_pool.h"

#include <fmt/core.h>

#include <utility>

#include "bench/harness/overruns.h"

namespace outrider {

Result<const LinkedServer*> ServerPool::find(const std::vector<std::string>& flags) {
  const auto found = servers_.find(flags);
  if (found != servers_.end()) return &found->second;
  OUTRIDER_ASSIGN_OR_RETURN(LinkedServer started, start(flags));
  return &servers_.emplace(flags, std::move(started)).first->second;
}

Result<LinkedServer> ServerPool::start(const std::vector<std::string>& flags) const {
  LinkedServer server;
  if (!plan_.server.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(server.address, parse_address(plan_.server));
    return server;
  }
  std::vector<std::string> arguments = {
      "--model",     plan_.target, "--dtype",   plan_.dtype,
      "--exits",     plan_.exits,  "--threads", std::to_string(plan_.threads),
      "--log-level", "warning"};
  if (!setting_.pass.empty()) {
    arguments.insert(arguments.end(),
                     {"--pace-pass-ms", setting_.pass.to_string(), "--pace-exit-cost",
                      fmt::format("{:.9g}", setting_.exit_cost)});
  }
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  OUTRIDER_ASSIGN_OR_RETURN(
      server.link, start_link(setting_.link, {.seed = plan_.seed, .kind = setting_.link_kind}));
  OUTRIDER_ASSIGN_OR_RETURN(server.server,
                            ServerProcess::start(arguments, core_, server.link->server_side()));
  OUTRIDER_ASSIGN_OR_RETURN(server.address, server.link->route(server.server->address()));
  return server;
}

void ServerPool::drop(const std::vector<std::string>& flags) {
  const auto found = servers_.find(flags);
  if (found == servers_.end()) return;
  if (found->second.server != nullptr) {
    dropped_ = dropped_ + found->second.server->stop().value_or(PaceCounts{});
  }
  servers_.erase(found);
}

PaceCounts ServerPool::stop() {
  PaceCounts sum = std::exchange(dropped_, {});
  for (auto& [flags, server] : servers_) {
    if (server.server != nullptr) sum = sum + server.server->stop().value_or(PaceCounts{});
  }
  servers_.clear();
  return sum;
}

}  // namespace outrider
