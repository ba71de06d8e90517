// How many processors this process may use.
//
// Thread rule: free functions that read the system's files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace outrider {

// The processors' worth of time that the process's control group grants, or a group above it that
// grants less: cpu.max of version 2, cpu.cfs_quota_us and cpu.cfs_period_us of version 1. Nothing:
// none of them has a bound. root: the folder in which /proc and the groups' folders are read.
std::optional<double> processor_quota(const std::string& root = "");

// At least 1: the processors of the process's affinity, to which its cpuset belongs, but no more
// than whole ones of its quota. More threads than that would be stopped in the middle of a pass.
int usable_processors();

}  // namespace outrider
