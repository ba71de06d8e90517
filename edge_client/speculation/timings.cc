// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/timings.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr double kKeep = 0.9;  // of the older samples' weight, per sample: about ten count
constexpr double kKeepRoundTrip = 0.7;
constexpr double kLineWeight = 5;  // so many samples make a line of their own
constexpr int kTripsToOpen = 3;    // TCP's greeting, HTTP/2's, and Open's own, at most

}  // namespace

void RowTimes::add(std::size_t rows, Duration took) {
  const auto x = static_cast<double>(rows);
  const double y = to_seconds(took);
  ++count_;
  weight_ = weight_ * kKeep + 1;
  rows_ = rows_ * kKeep + x;
  seconds_ = seconds_ * kKeep + y;
  rows_rows_ = rows_rows_ * kKeep + x * x;
  rows_seconds_ = rows_seconds_ * kKeep + x * y;
}

Duration RowTimes::at(double rows) const {
  if (weight_ == 0) return Duration{0};
  const double mean_rows = rows_ / weight_;
  const double mean_seconds = seconds_ / weight_;
  const double spread = rows_rows_ / weight_ - mean_rows * mean_rows;
  double slope = 0;
  if (spread > 0.05) {
    const double together = rows_seconds_ / weight_ - mean_rows * mean_seconds;
    // More rows never make a pass shorter, nor can it be proportional to them beyond the origin.
    slope = std::clamp(together / spread, 0.0, mean_seconds / std::max(mean_rows, 1.0));
  }
  const double seconds = mean_seconds + slope * (rows - mean_rows);
  return from_ms(std::max(seconds, 0.0) * 1e3);
}

Duration Timings::pass_of(std::size_t rows, bool exits) const {
  const RowTimes& own = exits ? pass : plain_pass;
  const RowTimes& other = exits ? plain_pass : pass;
  if (own.weight() >= std::min(other.weight(), kLineWeight)) return loaded(own, rows);
  const double ratio = exits_ratio().value_or(1);
  return from_ms(to_ms(loaded(other, rows)) * (exits ? ratio : 1 / ratio));
}

double Timings::known_rows() const {
  return (pass.weight() < plain_pass.weight() ? pass : plain_pass).mean_rows();
}

std::optional<Duration> Timings::exits_cost() const {
  if (!pass.known() || !plain_pass.known()) return std::nullopt;
  return std::max(Duration{0}, pass.at(known_rows()) - plain_pass.at(known_rows()));
}

std::optional<double> Timings::exits_ratio() const {
  const std::optional<Duration> cost = exits_cost();
  const double plain = cost ? to_ms(plain_pass.at(known_rows())) : 0;
  if (plain <= 0) return std::nullopt;
  return 1 + to_ms(*cost) / plain;
}

void Timings::on_pass(std::size_t rows, std::size_t batch_rows, bool exits, Duration took) {
  const std::size_t all = std::max(rows, batch_rows);
  rows_of_others_.add(static_cast<double>(all - rows));
  (exits ? pass : plain_pass).add(all, took);
}

void Timings::on_pass_costs(const PassCosts& costs) {
  if (knows_passes()) return;
  for (const PassCosts::Point& point : costs.points) {
    plain_pass.add(point.rows, point.time);
    if (costs.exits_percent == 0) continue;
    pass.add(point.rows, point.time + point.time * costs.exits_percent / 100);
  }
}

void Timings::on_opened(Duration took) {
  if (!measured_) round_trip_ = took;
}

Timings Timings::at_best() const {
  Timings best = *this;
  if (!measured_ && round_trip_) best.round_trip_ = std::max(*round_trip_ / kTripsToOpen, least_);
  return best;
}

void Timings::on_request_served(Duration took) {
  if (took < Duration{0}) return;
  const Duration before = measured_ ? *round_trip_ : took;
  round_trip_ = from_ms(kKeepRoundTrip * to_ms(before) + (1 - kKeepRoundTrip) * to_ms(took));
  measured_ = true;
}

void Timings::on_round_trip_bounds(const RoundTripBounds& bounds) {
  if (bounds.at_most) {
    round_trip_ = round_trip_ ? std::min(*round_trip_, *bounds.at_most) : *bounds.at_most;
  }
  if (bounds.at_least) {
    round_trip_ = round_trip_ ? std::max(*round_trip_, *bounds.at_least) : *bounds.at_least;
    least_ = *bounds.at_least;
  }
  measured_ = measured_ || bounds.at_most;
}

}  // namespace outrider
