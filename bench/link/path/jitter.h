// One-way delays: the mean with its jitter, or those of a trace.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "bench/link/path/link_random.h"
#include "bench/link/path/path_settings.h"

namespace outrider {

class Jitter final {
 public:
  // settings must outlive this.
  Jitter(const PathSettings& settings, std::uint64_t seed);

  // The delay of a packet that enters so long after the start; times must not fall.
  Duration at(Duration since_start);

  // The least delay that the settings allow.
  static Duration floor_of(const PathSettings& settings);

 private:
  const PathSettings& settings_;
  LinkRandom random_;
  double deviate_ = 0;  // of the standard normal distribution, at last_
  Duration last_{0};
};

}  // namespace outrider
