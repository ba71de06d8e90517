// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace outrider {
namespace {

std::uint64_t fixed_bytes(const MemoryDemand& demand) {
  std::uint64_t sum = 0;
  for (const MemoryNeed& need : demand.fixed) sum += need.bytes;
  return sum;
}

// Room for any two neighbours of the cycle, wherever in the ring the first of them ends: what is
// too large for the ring's rest begins at its start again.
std::uint64_t ring_for(const std::vector<std::uint64_t>& streamed) {
  if (streamed.empty()) return 0;
  std::uint64_t pair = 0;
  for (std::size_t i = 0; i < streamed.size(); ++i) {
    pair = std::max(pair, streamed[i] + streamed[(i + 1) % streamed.size()]);
  }
  return pair + std::ranges::max(streamed);
}

MemoryPlan plan_with(const MemoryDemand& demand, std::size_t pinned_layers, bool pinned_head) {
  std::vector<std::uint64_t> streamed(
      demand.layers.begin() + static_cast<std::ptrdiff_t>(pinned_layers), demand.layers.end());
  if (!pinned_head) streamed.push_back(demand.head);
  MemoryPlan plan;
  plan.pinned_layers = static_cast<std::int64_t>(pinned_layers);
  plan.pinned_head = pinned_head;
  plan.streamed_bytes = std::accumulate(streamed.begin(), streamed.end(), std::uint64_t{0});
  plan.pinned_bytes = std::accumulate(demand.layers.begin(), demand.layers.end(), demand.head) -
                      plan.streamed_bytes;
  // With few left, a ring that holds them all is smaller.
  plan.ring_bytes = std::min(ring_for(streamed), plan.streamed_bytes);
  plan.total_bytes = fixed_bytes(demand) + plan.pinned_bytes + plan.ring_bytes;
  return plan;
}

std::vector<MemoryPlan> all_plans(const MemoryDemand& demand) {
  std::vector<MemoryPlan> plans;
  for (std::size_t layers = 0; layers <= demand.layers.size(); ++layers) {
    for (const bool head : {false, true}) plans.push_back(plan_with(demand, layers, head));
  }
  return plans;
}

}  // namespace

Result<MemoryPlan> plan_memory(const MemoryDemand& demand, std::uint64_t budget) {
  std::vector<MemoryPlan> plans = all_plans(demand);
  const std::uint64_t least = std::ranges::min(plans, {}, &MemoryPlan::total_bytes).total_bytes;
  std::erase_if(plans, [&](const MemoryPlan& plan) { return plan.total_bytes > budget; });
  if (!plans.empty()) return std::ranges::min(plans, {}, &MemoryPlan::streamed_bytes);
  std::string parts;
  for (const MemoryNeed& need : demand.fixed)
    parts += need.what + " " + mib_text(need.bytes) + ", ";
  return invalid_argument("--memory-budget of " + mib_text(budget) + ": at least " +
                          mib_text(least) + " are needed: " + parts +
                          "buffers for the layers that are streamed " +
                          mib_text(least - fixed_bytes(demand)) +
                          ". Remedy: a larger budget, a shorter context (-c), --kv-dtype bf16, or "
                          "a pack of a smaller --dtype");
}

}  // namespace outrider
