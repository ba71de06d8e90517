// How much memory this process may take: the limit of its memory cgroup and of those around it.
//
// Thread rule: a free function; reads /proc and cgroup files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace outrider {

// Bytes; nothing where there is no limit. own: as /proc/self/cgroup; root: where cgroups are
// mounted. Both versions of cgroups are understood.
std::optional<std::uint64_t> memory_limit(const std::string& own = "/proc/self/cgroup",
                                          const std::string& root = "/sys/fs/cgroup");

}  // namespace outrider
