// When a server that was lost may decide again: after its link was good for long enough. How long
// that is depends on what the server is worth: its measured rate over this device's says after how
// long online a change has paid. And the rule learns: a stretch online that brought fewer tokens
// than this device would have decoded alone doubles the time, one that did not sets it back.
//
//   (on_offline (on_probe_sent on_probe)* on_online_ended)*
//
// Thread rule: pure; one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "common/base/clock.h"

namespace outrider {

class FailbackRule final {
 public:
  // after: how long the link must be good at most, as long as nothing was learnt.
  explicit FailbackRule(Duration after) : after_(after), first_(after) {}

  // Tokens per second of both targets, as far as they are known.
  void on_rates(std::optional<double> online, std::optional<double> offline);
  // This device decides from now on.
  void on_offline(TimePoint now);
  // When to probe the link; TimePoint::max() while a probe is out.
  TimePoint next_probe() const { return next_probe_; }
  // How long to wait for an answer: as long as the quickest took, and some more.
  Duration patience() const;
  // The least time that a connection and an answer took; nothing until a probe was good.
  std::optional<Duration> quickest() const { return quickest_; }
  void on_probe_sent() { next_probe_ = TimePoint::max(); }
  // took: of a good one.
  void on_probe(bool good, Duration took, TimePoint now);
  // The last probe was good, and the link has been for as long as it must.
  bool due() const { return due_; }
  Duration needed() const;
  // worthwhile: the server brought no fewer tokens than this device would have.
  void on_online_ended(bool worthwhile);

 private:
  Duration pause() const;

  const Duration after_;
  Duration first_;     // before doublings
  int doublings_ = 0;  // stretches in a row that were not worthwhile
  std::optional<Duration> quickest_;
  std::optional<TimePoint> good_since_;
  bool due_ = false;
  TimePoint next_probe_ = TimePoint::max();
};

}  // namespace outrider
