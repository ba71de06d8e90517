// SPDX-License-Identifier: Apache-2.0
#include "common/base/processors.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "common/base/control_groups.h"
#include "common/base/thread_pool.h"

namespace outrider {
namespace {

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

}  // namespace

std::optional<double> processor_quota(const std::string& root) {
  std::optional<double> least;
  visit_control_groups("cpu", root, [&](const std::string& folder, bool is_v2) {
    const std::optional<double> quota = quota_of(folder, is_v2);
    if (quota) least = std::min(least.value_or(*quota), *quota);
  });
  return least;
}

int usable_processors() {
  const int cores = std::max(static_cast<int>(usable_cores().size()), 1);
  const double quota = std::floor(processor_quota().value_or(cores));
  return std::max(1, static_cast<int>(std::min<double>(cores, quota)));
}

}  // namespace outrider
