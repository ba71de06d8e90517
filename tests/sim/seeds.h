// The seeds that a simulation runs: OUTRIDER_SIM_SEED=n runs one, OUTRIDER_SIM_SEEDS=n runs 1 to n.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>

namespace outrider {

struct SimSeeds {
  std::uint64_t first = 1;
  std::uint64_t last = 0;
  bool single = false;  // looked at by a person; says nothing of how often things happen

  std::uint64_t count() const { return last - first + 1; }
};

// A sanitizer runs a third of the usual ones: a seed takes it about ten times as long.
inline SimSeeds sim_seeds(std::uint64_t usual) {
  if (const char* one = std::getenv("OUTRIDER_SIM_SEED")) {
    const std::uint64_t seed = std::strtoull(one, nullptr, 10);
    return {seed, seed, true};
  }
  if (const char* count = std::getenv("OUTRIDER_SIM_SEEDS")) {
    return {1, std::strtoull(count, nullptr, 10)};
  }
#if defined(OUTRIDER_SANITIZED)
  usual /= 3;
#endif
  return {1, usual};
}

}  // namespace outrider
