// SPDX-License-Identifier: Apache-2.0
#include "edge_client/failover/failback_rule.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr Duration kLongest = std::chrono::seconds(60);
constexpr Duration kShortest = std::chrono::milliseconds(50);
constexpr int kMaxDoublings = 12;

// The cost of a change that does not last: the silence before the loss is known, and a new stream.
constexpr double kChangeSeconds = 1;

// Between two probes: a part of what the link must show, within these bounds.
constexpr int kProbesNeeded = 4;
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLastPause = std::chrono::seconds(2);

constexpr Duration kMinProbe = std::chrono::milliseconds(200);
constexpr Duration kMaxProbe = std::chrono::seconds(1);
constexpr int kProbeOverQuickest = 4;

}  // namespace

void FailbackRule::on_rates(std::optional<double> online, std::optional<double> offline) {
  if (!online || !offline) return;
  if (*online <= *offline) {
    first_ = kLongest;
    return;
  }
  const double pays_after = kChangeSeconds * *offline / (*online - *offline);
  first_ = std::min(after_, from_ms(std::min(pays_after, 60.0) * 1e3));
}

Duration FailbackRule::needed() const {
  return std::min(std::max(first_, kShortest) * (1 << doublings_), kLongest);
}

Duration FailbackRule::pause() const {
  return std::clamp(needed() / kProbesNeeded, kFirstPause, kLastPause);
}

void FailbackRule::on_offline(TimePoint now) {
  good_since_.reset();
  due_ = false;
  next_probe_ = now + pause();
}

Duration FailbackRule::patience() const {
  if (!quickest_) return kMaxProbe;
  return std::clamp(kProbeOverQuickest * *quickest_, kMinProbe, kMaxProbe);
}

void FailbackRule::on_probe(bool good, Duration took, TimePoint now) {
  if (!good) good_since_.reset();
  if (good && !good_since_) good_since_ = now;
  if (good) quickest_ = std::min(took, quickest_.value_or(took));
  due_ = good && now >= *good_since_ + needed();
  next_probe_ = now + pause();
  // The one that may end the time comes when it ends.
  if (good) next_probe_ = std::min(next_probe_, std::max(now, *good_since_ + needed()));
}

void FailbackRule::on_online_ended(bool worthwhile) {
  doublings_ = worthwhile ? 0 : std::min(doublings_ + 1, kMaxDoublings);
}

}  // namespace outrider
