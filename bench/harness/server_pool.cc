// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/server_pool.h"

#include <fmt/core.h>

#include <utility>

#include "bench/harness/overruns.h"

namespace outrider {

Result<const LinkedServer*> ServerPool::find(const ServerWish& wish) {
  const auto found = servers_.find(wish);
  if (found != servers_.end()) return &found->second;
  OUTRIDER_ASSIGN_OR_RETURN(LinkedServer started, start(wish));
  return &servers_.emplace(wish, std::move(started)).first->second;
}

// Which model, at which pace.
std::vector<std::string> ServerPool::model_arguments(const ServerWish& wish) const {
  const PaceCurve& pace = wish.draft_alone ? setting_.step : setting_.pass;
  std::vector<std::string> arguments = {
      "--model",     wish.draft_alone ? plan_.draft : plan_.target,
      "--dtype",     wish.draft_alone ? "auto" : plan_.dtype,
      "--exits",     wish.draft_alone || wish.without_exits ? "none" : plan_.exits,
      "--threads",   std::to_string(plan_.threads),
      "--device",    plan_.device,
      "--log-level", "warning"};
  if (pace.empty()) return arguments;
  arguments.insert(arguments.end(), {"--pace-pass-ms", pace.to_string()});
  if (!wish.draft_alone) {
    arguments.insert(arguments.end(),
                     {"--pace-exit-cost", fmt::format("{:.9g}", setting_.exit_cost)});
  }
  return arguments;
}

Result<LinkedServer> ServerPool::start(const ServerWish& wish) const {
  LinkedServer server;
  if (!plan_.server.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(server.address, parse_address(plan_.server));
    return server;
  }
  std::vector<std::string> arguments = model_arguments(wish);
  arguments.insert(arguments.end(), wish.flags.begin(), wish.flags.end());
  const LinkProfile link = wish.draft_alone ? delay_profile(Duration{0}) : setting_.link;
  OUTRIDER_ASSIGN_OR_RETURN(server.link,
                            start_link(link, {.seed = plan_.seed, .kind = setting_.link_kind}));
  OUTRIDER_ASSIGN_OR_RETURN(server.server,
                            ServerProcess::start(arguments, core_, server.link->server_side()));
  server.own_address = server.server->address();
  OUTRIDER_ASSIGN_OR_RETURN(server.address, server.link->route(server.server->address()));
  return server;
}

void ServerPool::drop(const ServerWish& wish) {
  const auto found = servers_.find(wish);
  if (found == servers_.end()) return;
  if (found->second.server != nullptr) {
    dropped_ = dropped_ + found->second.server->stop().value_or(PaceCounts{});
  }
  servers_.erase(found);
}

PaceCounts ServerPool::stop() {
  PaceCounts sum = std::exchange(dropped_, {});
  for (auto& [wish, server] : servers_) {
    if (server.server != nullptr) sum = sum + server.server->stop().value_or(PaceCounts{});
  }
  servers_.clear();
  return sum;
}

}  // namespace outrider
