// SPDX-License-Identifier: Apache-2.0
#include "common/base/processors.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/thread_pool.h"

namespace outrider {
namespace {

// A hierarchy of control groups that may bound processors' time.
struct Hierarchy {
  bool is_v2 = false;
  std::string root;   // the group that is mounted
  std::string mount;  // where
};

bool has_word(std::string_view list, std::string_view word) {
  return ("," + std::string(list) + ",").find("," + std::string(word) + ",") != std::string::npos;
}

// A line of /proc/self/mountinfo: ID PARENT DEVICE ROOT MOUNT OPTIONS.. - TYPE SOURCE OPTIONS.
std::optional<Hierarchy> read_mount(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
  std::string skipped, type, options;
  Hierarchy found;
  head >> skipped >> skipped >> skipped >> found.root >> found.mount;
  tail >> type >> skipped >> options;
  found.is_v2 = type == "cgroup2";
  const bool bounds = found.is_v2 || (type == "cgroup" && has_word(options, "cpu"));
  return bounds ? std::optional(found) : std::nullopt;
}

// The process's group of the hierarchy, from /proc/self/cgroup: NUMBER:CONTROLLERS:PATH.
std::string own_group(const std::string& root, const Hierarchy& hierarchy) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (hierarchy.is_v2 ? controllers.empty() : has_word(controllers, "cpu")) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

// "max" and -1 are no numbers above 0: there is no bound.
std::optional<double> quota_of(const std::string& folder, bool is_v2) {
  double quota = 0, period = 0;
  if (is_v2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

// Of the group, and of those above it as far as they are mounted.
std::optional<double> least_quota(const std::string& root, const Hierarchy& hierarchy) {
  std::string below = own_group(root, hierarchy);
  const bool is_mounted =
      hierarchy.root == "/" || below == hierarchy.root || below.starts_with(hierarchy.root + "/");
  // Where the group lies outside of what is mounted here, what is mounted bounds it.
  if (!is_mounted || below.starts_with("/..")) below.clear();
  if (is_mounted && hierarchy.root != "/") below.erase(0, hierarchy.root.size());
  std::optional<double> least;
  while (true) {
    const auto quota = quota_of(root + hierarchy.mount + below, hierarchy.is_v2);
    if (quota) least = std::min(least.value_or(*quota), *quota);
    if (below.empty() || below == "/") return least;
    below.erase(below.rfind('/'));
  }
}

}  // namespace

std::optional<double> processor_quota(const std::string& root) {
  std::optional<double> least;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::optional<Hierarchy> hierarchy = read_mount(line);
    const auto quota = hierarchy ? least_quota(root, *hierarchy) : std::nullopt;
    if (quota) least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

int usable_processors() {
  const int cores = std::max(static_cast<int>(usable_cores().size()), 1);
  const double quota = std::floor(processor_quota().value_or(cores));
  return std::max(1, static_cast<int>(std::min<double>(cores, quota)));
}

}  // namespace outrider
