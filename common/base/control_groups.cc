// SPDX-License-Identifier: Apache-2.0
#include "common/base/control_groups.h"

#include <fstream>
#include <optional>
#include <sstream>

namespace outrider {
namespace {

// A hierarchy of control groups that is mounted and has the controller.
struct Hierarchy {
  bool is_v2 = false;
  std::string root;   // the group that is mounted
  std::string mount;  // where
};

bool has_word(std::string_view list, std::string_view word) {
  return ("," + std::string(list) + ",").find("," + std::string(word) + ",") != std::string::npos;
}

// A line of /proc/self/mountinfo: ID PARENT DEVICE ROOT MOUNT OPTIONS.. - TYPE SOURCE OPTIONS.
std::optional<Hierarchy> read_mount(const std::string& line, std::string_view controller) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
  std::string skipped, type, options;
  Hierarchy found;
  head >> skipped >> skipped >> skipped >> found.root >> found.mount;
  tail >> type >> skipped >> options;
  found.is_v2 = type == "cgroup2";
  const bool bounds = found.is_v2 || (type == "cgroup" && has_word(options, controller));
  return bounds ? std::optional(found) : std::nullopt;
}

// The process's group of the hierarchy, from /proc/self/cgroup: NUMBER:CONTROLLERS:PATH.
std::string own_group(const std::string& root, const Hierarchy& hierarchy,
                      std::string_view controller) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (hierarchy.is_v2 ? controllers.empty() : has_word(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

}  // namespace

void visit_control_groups(std::string_view controller, const std::string& root,
                          const std::function<void(const std::string& folder, bool is_v2)>& visit) {
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::optional<Hierarchy> hierarchy = read_mount(line, controller);
    if (!hierarchy) continue;
    const std::string& top = hierarchy->root;
    std::string below = own_group(root, *hierarchy, controller);
    const bool is_mounted = top == "/" || below == top || below.starts_with(top + "/");
    // Where the group lies outside of what is mounted here, what is mounted bounds it.
    if (!is_mounted || below.starts_with("/..")) below.clear();
    if (is_mounted && top != "/") below.erase(0, top.size());
    while (!below.empty() && below != "/") {
      visit(root + hierarchy->mount + below, hierarchy->is_v2);
      below.erase(below.rfind('/'));
    }
    visit(root + hierarchy->mount, hierarchy->is_v2);
  }
}

}  // namespace outrider
