// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/session/pass_plan.h"

#include <algorithm>
#include <utility>

namespace outrider {

bool EndRule::stops(TokenId token) const {
  return std::binary_search(stop_ids.begin(), stop_ids.end(), token);
}

bool EndRule::ends_at(TokenId token, Position position) const {
  return position + 1 >= end_position || stops(token);
}

std::vector<TokenId> path_to(const PassPlan& plan, std::size_t row) {
  std::vector<TokenId> path;
  for (auto at = static_cast<std::int32_t>(row) - 1; at >= 0;) {
    const PassPlan::NodeRow& node = plan.nodes[static_cast<std::size_t>(at)];
    path.push_back(node.token);
    at = node.parent;
  }
  std::ranges::reverse(path);
  return path;
}

EndRule make_end_rule(const Open& open, const Target& target) {
  std::vector<TokenId> stops;
  if (!open.ignore_target_stops) stops = target.model.stop_ids;
  stops.insert(stops.end(), open.stop_ids.begin(), open.stop_ids.end());
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  return {.end_position = std::min(open.end_position, target.limits.max_positions),
          .stop_ids = std::move(stops)};
}

PassWalk walk_nodes(const PassPlan& plan, Position end, const EndRule& end_rule,
                    const Chooser& choose) {
  PassWalk walked;
  while (true) {
    const Position position = end + static_cast<Position>(walked.tokens.size());
    const TokenId token = choose(row_after(walked.leaf), position);
    walked.tokens.push_back(token);
    if (end_rule.ends_at(token, position)) return walked;
    const auto next = std::find_if(plan.nodes.begin(), plan.nodes.end(), [&](const auto& node) {
      return !node.ended && node.parent == walked.leaf && node.token == token;
    });
    if (next == plan.nodes.end()) return walked;
    walked.leaf = static_cast<std::int32_t>(next - plan.nodes.begin());
  }
}

}  // namespace outrider
