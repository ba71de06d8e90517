// Online estimates of the times that drafting decisions rest on (FSD table 3): a draft step T_p, a
// pass of the target T_q by its rows, with and without exits, the round trip 2 T_c. All follow
// changes within a few rounds.
//
// The round trip is measured without a message of its own: by what passes are heard to have started
// with (uplink_window.h).
//
// Thread rule: none of its own; owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/protocol/pass_costs.h"

namespace outrider {

// Time as a line over the number of rows, fitted to recent samples.
class RowTimes final {
 public:
  void add(std::size_t rows, Duration took);
  bool known() const { return count_ > 0; }
  // 0 while nothing is known.
  Duration of(std::size_t rows) const { return at(static_cast<double>(rows)); }
  Duration at(double rows) const;

  std::uint64_t count() const { return count_; }  // samples so far
  double weight() const { return weight_; }       // of the samples, older ones counted less
  double mean_rows() const { return count_ > 0 ? rows_ / weight_ : 1; }

 private:
  std::uint64_t count_ = 0;
  double weight_ = 0;
  // Sums over the samples, older ones weighted less.
  double rows_ = 0;
  double seconds_ = 0;
  double rows_rows_ = 0;
  double rows_seconds_ = 0;
};

// What is known to hold of the round trip at a moment.
struct RoundTripBounds {
  std::optional<Duration> at_most, at_least;
};

class Timings final {
 public:
  RowTimes draft_step;
  RowTimes pass;        // that the target's exits looked at, if it has any
  RowTimes plain_pass;  // that they did not

  bool knows_passes() const { return pass.known() || plain_pass.known(); }
  // A pass with or without exits. The kind of which little was seen is taken for the other, by so
  // much shorter or longer as exits make a pass.
  Duration pass_of(std::size_t rows, bool exits) const;
  // What exits make a pass longer; nothing until both kinds were seen.
  std::optional<Duration> exits_cost() const;

  // What the server says of its passes; what was measured here counts more and more.
  void on_pass_costs(const PassCosts& costs);
  // The answer to Open came after this; an upper bound, as it may include connecting.
  void on_opened(Duration took);
  // An idle verifier was asked for a pass and started it so long after, queueing not counted.
  void on_request_served(Duration took);
  // The round trip lies within these.
  void on_round_trip_bounds(const RoundTripBounds& bounds);

  // 0 while nothing is known.
  Duration round_trip() const { return round_trip_.value_or(Duration{0}); }
  // Not only bounded by the answer to Open, which came after the greetings of TCP and HTTP/2.
  bool has_measured_round_trip() const { return measured_; }
  // With the shortest round trip that is possible by now.
  Timings at_best() const;

 private:
  // Where the two kinds are compared: the rows of the one that was seen less, as only its time at
  // these is known.
  double known_rows() const;
  // How many times as long a pass with exits takes.
  std::optional<double> exits_ratio() const;

  std::optional<Duration> round_trip_;
  bool measured_ = false;  // not only of the opening
};

}  // namespace outrider
