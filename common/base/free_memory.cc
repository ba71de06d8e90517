// SPDX-License-Identifier: Apache-2.0
#include "common/base/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "common/base/control_groups.h"

namespace outrider {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
// The program's own memory, except weights, keys and values.
constexpr std::int64_t kOwnNeeds = std::int64_t{256} << 20;

std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (!(file >> value)) return std::nullopt;  // absent, or "max"
  return value;
}

std::int64_t available_memory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string field;
  std::int64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> field >> kib && field == "MemAvailable:") return kib << 10;
  }
  return kUnlimited;
}

// The bytes that a control group still allows; its page cache counts as free.
std::int64_t left_in_group(const std::string& folder, const char* limit, const char* usage) {
  const std::optional<std::int64_t> most = read_number(folder + limit);
  const std::optional<std::int64_t> used = read_number(folder + usage);
  if (!most || !used) return kUnlimited;
  std::int64_t cached = 0;
  std::ifstream stat(folder + "/memory.stat");
  std::string field;
  std::int64_t value = 0;
  while (stat >> field >> value) {
    if (field == "inactive_file" || field == "total_inactive_file") cached = value;
  }
  return std::max<std::int64_t>(*most - *used + cached, 0);
}

// The bytes that the tightest control group above the process still allows.
std::int64_t left_in_groups(const std::string& root) {
  std::int64_t left = kUnlimited;
  visit_control_groups("memory", root, [&](const std::string& folder, bool is_v2) {
    left = std::min(
        left, is_v2 ? left_in_group(folder, "/memory.max", "/memory.current")
                    : left_in_group(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes"));
  });
  return left;
}

// The bytes that the process may still map (ulimit -v).
std::int64_t left_to_map() {
  rlimit limit{};
  std::int64_t pages = 0;
  const bool bounded = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (!bounded || !(std::ifstream("/proc/self/statm") >> pages)) return kUnlimited;
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE), 0);
}

}  // namespace

std::int64_t free_memory(const std::string& root) {
  return std::min({available_memory(root), left_in_groups(root), left_to_map()});
}

// The last tenth is for the system, buffers, and growth of other processes.
std::int64_t room_beside_program(std::int64_t free_bytes) {
  return std::max<std::int64_t>(free_bytes - kOwnNeeds, 0) / 10 * 9;
}

}  // namespace outrider
