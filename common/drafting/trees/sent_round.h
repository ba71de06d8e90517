// What was sent of a round, kept beside the tree that forgets it: which branch of it the verdict
// followed, and how far.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/drafting/round_planner.h"

namespace outrider {

class SentRound final {
 public:
  SentRound() = default;
  SentRound(const RoundPlan& plan, const PlanView& view);

  struct Match {
    std::size_t accepted = 0;  // nodes of the round that became text
    std::size_t length = 0;    // of the longest branch through the last of them
    // The draft's candidates at the positions that were decided: how many of them held the token,
    // of how many.
    std::size_t named = 0;
    std::size_t asked = 0;
    std::size_t first = 0;  // of them, those where the draft's best candidate was the token
  };
  Match match(std::span<const TokenId> tokens) const;

  std::size_t size() const { return nodes_.size(); }
  std::size_t leaves() const { return leaves_; }

 private:
  struct Node {
    NodeIndex index = kNoNode;
    std::size_t parent = 0;  // place in nodes_, counted from 1; 0: the root
    TokenId token = 0;
    std::size_t below = 0;  // length of the longest branch below
    std::vector<TokenId> candidates = {};
  };

  std::vector<Node> nodes_;
  std::vector<TokenId> root_candidates_;
  std::size_t leaves_ = 0;
};

}  // namespace outrider
