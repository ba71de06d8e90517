// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/memory_plan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
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
  std::erase(streamed, std::uint64_t{0});  // what all stays is no neighbour
  MemoryPlan plan;
  plan.pinned_layers = static_cast<std::int64_t>(pinned_layers);
  plan.pinned_head = pinned_head;
  plan.streamed_bytes = std::accumulate(streamed.begin(), streamed.end(), std::uint64_t{0});
  plan.pinned_bytes = std::accumulate(demand.layers.begin(), demand.layers.end(), demand.head) -
                      plan.streamed_bytes;
  // With few left, a ring that holds them all is smaller.
  plan.ring_bytes =
      std::min(demand.ring > 0 ? demand.ring : ring_for(streamed), plan.streamed_bytes);
  plan.device_buffer_bytes = streamed.empty() ? 0 : demand.device_buffers;
  plan.total_bytes =
      fixed_bytes(demand) + plan.pinned_bytes + plan.ring_bytes + plan.device_buffer_bytes;
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

namespace {

// No machine has more: what the first version of cgroups shows where there is no limit.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

std::optional<std::uint64_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value) || value >= kNoLimit) return std::nullopt;  // "max" is no number
  return value;
}

// The least limit of a group and those around it.
std::optional<std::uint64_t> least(const std::filesystem::path& root, const std::string& group,
                                   const char* name) {
  std::optional<std::uint64_t> limit;
  for (std::filesystem::path at = std::filesystem::path(group).relative_path();;
       at = at.parent_path()) {
    if (const auto here = number_in(root / at / name))
      limit = std::min(*here, limit.value_or(*here));
    if (at.empty()) return limit;
  }
}

}  // namespace

std::optional<std::uint64_t> memory_limit(const std::string& own, const std::string& root) {
  std::ifstream groups(own);
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/group" or "0::/group"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    std::optional<std::uint64_t> limit;
    if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      limit = least(std::filesystem::path(root) / "memory", group, "memory.limit_in_bytes");
    } else if (controllers.empty()) {
      limit = least(root, group, "memory.max");
    }
    if (limit) return limit;
  }
  return std::nullopt;
}

}  // namespace outrider
