// Whether the server still decides: how long it may be silent, learnt from how often it speaks, and
// whether it brings tokens fast enough.
//
//   (on_stream on_heard* on_verdict*)*
//
// Thread rule: pure; one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

// Tokens per second of a target, as verdicts bring them: the last twenty or so count. Prefills and
// the time between two streams are left out.
//
//   (on_stream on_verdict*)*
class DecodingRate final {
 public:
  void on_stream() { last_.reset(); }
  void on_verdict(std::size_t tokens, TimePoint now) {
    constexpr double kKept = 0.95;
    if (last_) {
      tokens_ = kKept * tokens_ + static_cast<double>(tokens);
      seconds_ = kKept * seconds_ + to_seconds(now - *last_);
    }
    last_ = now;
  }
  // Nothing before it was measured.
  std::optional<double> per_s() const {
    if (seconds_ <= 0) return std::nullopt;
    return tokens_ / seconds_;
  }

 private:
  std::optional<TimePoint> last_;
  double tokens_ = 0;
  double seconds_ = 0;
};

struct LinkFloors {
  Duration first_patience{0};  // before the first verdict
  double min_rate = 0;         // tokens/s; 0: none of its own
  Duration max_round_trip{0};  // 0: any
};

class LinkMonitor final {
 public:
  explicit LinkMonitor(const LinkFloors& floors) : floors_(floors) {}

  // opening: what a connection and an answer take at best on this link; nothing if that is not
  // known.
  void on_stream(TimePoint now, std::optional<Duration> opening = std::nullopt);
  // Any message, a verdict included.
  void on_heard(TimePoint now);
  void on_verdict(std::size_t tokens, TimePoint now);

  // A link that was lost for its silence was good again, so long after the server's last word, and
  // the server works ahead meanwhile: had this been waited for, all that would have come at once.
  void on_outage(Duration lasted);

  TimePoint heard() const { return heard_; }
  // A silence up to then is a lost link.
  TimePoint silent_at() const { return heard_ + patience(); }
  Duration patience() const;

  // Why another target would be better, though this link lives; nothing if it would not.
  // other_rate: tokens/s of the other, if they are known. round_trips: of this answer.
  std::optional<std::string> too_slow(std::optional<double> other_rate,
                                      const std::vector<Duration>& round_trips,
                                      TimePoint now) const;

 private:
  const LinkFloors floors_;
  TimePoint heard_{};
  std::optional<Duration> opening_;  // nothing: the server has spoken, or this is not known
  std::optional<TimePoint> first_verdict_;
  Duration longest_gap_{0};  // between messages; the last ones weigh most
  Duration outage_{0};       // of those that are worth waiting for; 0: none is
  DecodingRate rate_;
};

}  // namespace outrider
