// SPDX-License-Identifier: Apache-2.0
#include "bench/link/path/loss.h"

#include <algorithm>

namespace outrider {

double window_loss(const LossSettings& settings, Duration since_start) {
  double share = 0;
  for (const LossWindow& window : settings.windows) {
    if (since_start < window.first) continue;
    Duration into = since_start - window.first;
    if (window.period > Duration::zero()) into %= window.period;
    if (into < window.length) share = std::max(share, window.share);
  }
  return share;
}

double mean_loss(const LossSettings& settings) {
  const BurstLoss& burst = settings.burst;
  double passes = 1 - settings.share;
  if (burst.to_bad > 0) {
    passes *= 1 - burst.loss_when_bad * burst.to_bad / (burst.to_bad + burst.to_good);
  }
  for (const LossWindow& window : settings.windows) {
    if (window.period == Duration::zero()) continue;  // once is nothing in the long run
    passes *=
        1 - window.share * std::min(1.0, to_seconds(window.length) / to_seconds(window.period));
  }
  return 1 - passes;
}

bool LossModel::loses(Duration since_start) {
  const BurstLoss& burst = settings_.burst;
  // Every draw is made for every packet, so that one part of the settings does not move the others.
  bad_ = random_.chance(bad_ ? 1 - burst.to_good : burst.to_bad);
  const bool in_burst = random_.chance(burst.loss_when_bad) && bad_;
  const bool single = random_.chance(settings_.share);
  const bool in_window = random_.chance(window_loss(settings_, since_start));
  return in_burst || single || in_window;
}

}  // namespace outrider
