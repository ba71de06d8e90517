// Running estimates of the times on which drafting decisions rest (FSD, table 3): a draft step T_p,
// a pass of the target T_q by its number of rows, with and without exits, and the round trip 2 T_c.
// All follow changes within a few rounds.
//
// The round trip is measured without a message of its own: from which nodes had arrived when a pass
// started (UplinkWindow in sending.h).
//
// Thread rule: values, owned by the speculator. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/decoding/costs/pass_costs.h"

namespace outrider {

// The mean of recent values: each new one makes the older ones count less.
class DecayedMean final {
 public:
  // keep: of the older values' weight, per value; 1 / (1 - keep) count at most.
  explicit DecayedMean(double keep) : keep_(keep) {}

  void add(double value) {
    weight_ = weight_ * keep_ + 1;
    sum_ = sum_ * keep_ + value;
  }
  void clear() { weight_ = sum_ = 0; }

  // The number of values, by their weights.
  double weight() const { return weight_; }
  // 0 while there is none.
  double mean() const { return weight_ > 0 ? sum_ / weight_ : 0; }

 private:
  double keep_;
  double weight_ = 0;
  double sum_ = 0;
};

// Time as a linear function of the number of rows, fitted to recent samples.
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

// Bounds that the round trip is known to obey at the moment.
struct RoundTripBounds {
  std::optional<Duration> at_most, at_least;
};

class Timings final {
 public:
  RowTimes draft_step;
  // By the rows of all who ride.
  RowTimes pass;        // with the target's early exits, if it has any
  RowTimes plain_pass;  // without

  bool knows_passes() const { return pass.known() || plain_pass.known(); }
  // The time of a pass with or without exits, and with as many rows of others as were in recent
  // ones. If little was seen of this kind, it is derived from the other kind by the ratio of the
  // two.
  Duration pass_of(std::size_t rows, bool exits) const;
  // The time that exits add to a pass; nothing until both kinds were seen.
  std::optional<Duration> exits_cost() const;

  // A pass with so many rows of ours took so long. batch_rows: with those of others; 0: there were
  // none.
  void on_pass(std::size_t rows, std::size_t batch_rows, bool exits, Duration took);
  // The server's own figures for its passes. What is measured here outweighs them with time.
  void on_pass_costs(const PassCosts& costs);
  // How long Opened took. An upper bound of the round trip, as it may include connecting.
  void on_opened(Duration took);
  // The time from a request to an idle verifier to the start of its pass, without queueing.
  void on_request_served(Duration took);
  // The round trip lies within these bounds.
  void on_round_trip_bounds(const RoundTripBounds& bounds);

  // 0 while nothing is known.
  Duration round_trip() const { return round_trip_.value_or(Duration{0}); }
  // False while nothing bounds it from above but Opened, which includes the handshakes of TCP and
  // HTTP/2.
  bool has_measured_round_trip() const { return measured_; }
  // The same with the shortest round trip that is still possible.
  Timings at_best() const;

 private:
  static constexpr double kKeepOthers = 0.9;  // about ten passes count

  Duration loaded(const RowTimes& times, std::size_t rows) const {
    return times.at(static_cast<double>(rows) + rows_of_others_.mean());
  }
  // The number of rows at which the two kinds are compared: that of the kind that was seen less.
  double known_rows() const;
  // The time of a pass with exits divided by that of one without.
  std::optional<double> exits_ratio() const;

  DecayedMean rows_of_others_{kKeepOthers};  // in recent passes
  std::optional<Duration> round_trip_;
  Duration least_{0};      // the latest lower bound
  bool measured_ = false;  // from above, and not by Opened alone
};

}  // namespace outrider
