// How a memory budget is spent on a target that is streamed from a disk: first on what must be
// there, then on layers that stay in memory, the first ones first, so that a pass reads less.
//
// Thread rule: pure functions, except for the files that memory_limit() reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// "12 MiB", rounded up.
inline std::string mib_text(std::uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

struct MemoryNeed {
  std::string what;  // "keys and values of 2048 positions"
  std::uint64_t bytes = 0;
};

struct MemoryDemand {
  std::vector<MemoryNeed> fixed;      // beside the weights
  std::vector<std::uint64_t> layers;  // as they are read
  std::uint64_t head = 0;             // the output matrix
  // The bytes of the buffers where a part of the layers is streamed; 0: enough for two neighbours.
  std::uint64_t ring = 0;
  // Beside them, of a device that computes what is streamed: its own buffers.
  std::uint64_t device_buffers = 0;
};

struct MemoryPlan {
  std::int64_t pinned_layers = 0;  // the first ones
  // For an elastic model's layers, which lie level by level: the most levels of each layer that are
  // read, 0 for all; and the number of them that stay in memory.
  std::size_t extents = 0;
  std::size_t resident_extents = 0;
  bool pinned_head = false;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t ring_bytes = 0;  // of the buffers that the others are streamed through; 0: none are
  std::uint64_t device_buffer_bytes = 0;  // of the device that computes what is streamed
  std::uint64_t streamed_bytes = 0;       // read in each pass; of experts, at most
  std::uint64_t total_bytes = 0;          // of everything, at most the budget
};

// Two layers that follow each other always fit the buffers, so that one is read while the other
// computes. Of the plans with the output matrix in memory and streamed the one that reads less.
// Errors: INVALID_ARGUMENT for a budget below the least, saying what that consists of.
Result<MemoryPlan> plan_memory(const MemoryDemand& demand, std::uint64_t budget);

// How much memory this process may take, in bytes: the limit of its memory cgroup and of those
// around it; nothing where there is no limit. own: as /proc/self/cgroup; root: where cgroups are
// mounted. Both versions of cgroups are understood.
std::optional<std::uint64_t> memory_limit(const std::string& own = "/proc/self/cgroup",
                                          const std::string& root = "/sys/fs/cgroup");

}  // namespace outrider
