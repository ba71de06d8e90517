// Which packets are lost: single ones, bursts, and windows of time.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "bench/link/path/link_random.h"
#include "bench/link/path/path_settings.h"

namespace outrider {

class LossModel final {
 public:
  // settings must outlive this.
  LossModel(const LossSettings& settings, std::uint64_t seed)
      : settings_(settings), random_(seed) {}

  // Whether the next packet is lost, which passes so long after the start.
  bool loses(Duration since_start);

 private:
  const LossSettings& settings_;
  LinkRandom random_;
  bool bad_ = false;
};

// The share of a window's loss at that time; 0 outside all of them.
double window_loss(const LossSettings& settings, Duration since_start);

// The share of packets that is lost in the long run, evenly sent.
double mean_loss(const LossSettings& settings);

}  // namespace outrider
