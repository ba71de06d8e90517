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
  std::vector<std::string> arguments = {"--model",     plan_.target, "--dtype",   plan_.dtype,
                                        "--exits",     plan_.exits,  "--threads", "1",
                                        "--log-level", "warning"};
  if (!setting_.pass.empty()) {
    arguments.insert(arguments.end(),
                     {"--pace-pass-ms", setting_.pass.scaled(1 / plan_.time_scale).to_string(),
                      "--pace-exit-cost", fmt::format("{:.9g}", setting_.exit_cost)});
  }
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  LinkedServer server;
  OUTRIDER_ASSIGN_OR_RETURN(server.server, ServerProcess::start(arguments, core_));
  DelayLinkOptions link;
  link.upstream = server.server->address();
  link.one_way = from_ms(setting_.one_way_ms / plan_.time_scale);
  OUTRIDER_ASSIGN_OR_RETURN(server.link, DelayLink::start(link));
  return server;
}

PaceCounts ServerPool::stop() {
  PaceCounts sum;
  for (auto& [flags, server] : servers_) {
    sum = sum + server.server->stop().value_or(PaceCounts{});
  }
  servers_.clear();
  return sum;
}

}  // namespace outrider
