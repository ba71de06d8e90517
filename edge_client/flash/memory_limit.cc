// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/memory_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace outrider {
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
