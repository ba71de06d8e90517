// The variants that `exact` runs, and what must have happened in each for it to be evidence.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "common/decoding/drafting/growth_policy.h"
#include "common/decoding/drafting/trees/make_planner.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"

namespace outrider {

struct ExactWish {
  std::vector<StrategyChoice> strategies = {Strategy::kSd, Strategy::kFsd, Strategy::kMirror};
  std::vector<QueueOrder> queues = {QueueOrder::kPriority, QueueOrder::kFifo, QueueOrder::kRandom};
  std::vector<ReportQueue> server_queues = {ReportQueue::kGain, ReportQueue::kFifo};
  std::vector<int> workers = {1, 3, 10};
  int branches = 2;  // of the rounds of one more variant of sd and fsd; 1: no such variant
  std::vector<TreeChoice> trees;  // of rounds of sd, two more variants each
  double prune_below = 0;         // of two more variants of each tree; 0: none
  std::string server_draft;   // of servers that draft too, beside ar, sd and mirror; empty: none
  bool remote = true;         // a server decides
  bool resident = false;      // the target in the edge's own process
  std::string pack;           // of the target, streamed by edges without a server; empty: none
  std::string memory_budget;  // of an edge with a pack
  std::string plain_memory_budget;  // of an edge with a pack and no draft; empty: the same
};

// An event that must have occurred in some answer of the variants that name it.
struct ExactFeature {
  std::string name;  // "pruned (flash)"
  bool (*occurred)(const EdgeAnswer& answer);
};

struct ExactVariant {
  GridVariant grid;
  std::vector<ExactFeature> features = {};
};

// target, dtype: of the server.
std::vector<ExactVariant> exact_variants(const ExactWish& wish, const std::string& target,
                                         const std::string& dtype);

// The variants' features that never occurred in their answers, each once.
std::vector<std::string> missing_features(const std::vector<ExactVariant>& variants,
                                          const std::vector<FinishedAnswer>& answers);

}  // namespace outrider
