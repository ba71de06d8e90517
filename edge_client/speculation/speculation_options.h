// How an answer is speculated, as a user chooses it.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "common/decoding/drafting/growth_policy.h"
#include "common/decoding/drafting/trees/make_planner.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

struct SpeculationOptions {
  std::optional<StrategyChoice> strategy = {};  // nothing: sd if a tree is named, else mirror
  std::optional<int> gamma = {};  // drafted tokens of a round, mirror: at most; nothing: the
                                  // strategy's own number
  int branches = 1;               // sd, fsd: chains in a round, under its likeliest first tokens
  TreeOptions tree = {};          // sd: what a round is
  std::optional<bool> provisional = {};  // sd: draft while a verdict is awaited; nothing: as the
                                         // tree's paper does
  int fan_out = kFanOut;                 // mirror: next tokens considered at each position
  QueueOrder queue = QueueOrder::kPriority;  // fsd, mirror
  Optimize optimize = Optimize::kLatency;    // mirror
  bool learn_exits = true;   // mirror, trees: verdicts correct what exits state; false: to compare
  bool takes_turns = false;  // sd, mirror: draft and target compute on the same cores, so that
                             // neither works while the other does
  double uplink_budget = 0;  // mirror: bytes/s for what may turn out unused; 0: as the link carries

  StrategyChoice chosen() const {
    const bool has_tree = tree.kind != TreeKind::kChain;
    return strategy.value_or(has_tree ? Strategy::kSd : Strategy::kMirror);
  }
  // FSD's exits state scores, and their order is the paper's.
  bool corrects_exits() const { return learn_exits && chosen() != Strategy::kFsd; }
  // Drafted tokens of a round; of mirror's the most.
  int draft_length() const { return gamma.value_or(default_draft_length(chosen(), optimize)); }
};

}  // namespace outrider
