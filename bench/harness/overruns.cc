// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/overruns.h"

#include <fmt/core.h>

namespace outrider {

double overrun_share(const PaceCounts& counts) {
  if (counts.passes == 0) return 0;
  return static_cast<double>(counts.overruns) / static_cast<double>(counts.passes);
}

PaceCounts operator+(const PaceCounts& one, const PaceCounts& other) {
  return {one.passes + other.passes, one.overruns + other.overruns};
}

Json to_json(const PaceCounts& counts) {
  return {{"passes", counts.passes}, {"overruns", counts.overruns}};
}

std::string overrun_line(const std::string& whose, const PaceCounts& counts) {
  return fmt::format(
      "{}: {} of {} passes were slower than the emulated pace, at most {:.0f} % may be. Remedy: a "
      "quieter machine",
      whose, counts.overruns, counts.passes, 100 * kMaxOverruns);
}

}  // namespace outrider
