// SPDX-License-Identifier: Apache-2.0
#include "bench/probe/accuracy.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "bench/probe/datagram_probe.h"
#include "bench/stats/statistics.h"
#include "emulation/path/impaired_path.h"
#include "emulation/path/link_profile.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kRoundTripShare = 0.02, kRoundTripMs = 0.3;
constexpr double kRateShare = 0.05, kWindowShare = 0.03;
constexpr double kLateMs = 5;
constexpr Duration kWindow = seconds(10);
constexpr Duration kSpacing = milliseconds(20);
constexpr Duration kSettle = milliseconds(100);  // between starting threads and the first packet
constexpr Duration kWarmUp = seconds(1);         // of a flood

bool is_trace(const PathSettings& path) {
  return path.delays != nullptr || path.rates != nullptr || path.opportunities != nullptr;
}

bool is_dead(const PathSettings& path) {
  return path.silent_from && *path.silent_from == Duration::zero();
}

// The round trips by the profile's law; many of them.
std::vector<double> law_of(const LinkProfile& profile) {
  const std::vector<Duration> times = probe_times(Duration::zero(), seconds(20000), kSpacing, 1);
  return arrived(expected_round_trips(profile, kProbeBytes, times, 1));
}

// The differences where both have a value.
std::vector<double> paired_errors(std::span<const std::optional<double>> achieved,
                                  std::span<const std::optional<double>> asked) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < achieved.size(); ++i) {
    if (achieved[i] && asked[i]) errors.push_back(*achieved[i] - *asked[i]);
  }
  return errors;
}

double allowed_error_ms(double median_ms) {
  return kRoundTripShare * median_ms + kRoundTripMs;
}

// The median's standard error times the square root of the number of samples.
double median_spread_ms(const std::vector<double>& law) {
  return (quantile(law, 0.55) - quantile(law, 0.45)) / (2 * 0.1);
}

Estimate less(const Estimate& estimate, double by) {
  Estimate moved{estimate.value - by, std::nullopt};
  if (estimate.interval) {
    moved.interval = Interval{estimate.interval->low - by, estimate.interval->high - by};
  }
  return moved;
}

// A count, not a sample, so its interval is the value itself.
Estimate exactly(double value) {
  return {value, Interval{value, value}};
}

class Measurement final {
 public:
  Measurement(const TunLink& link, const AccuracyPlan& plan) : link_(link), plan_(plan) {}

  Status measure_round_trips() {
    const LinkProfile& profile = link_.profile();
    const Duration length =
        plan_.round_trips > Duration::zero() ? plan_.round_trips : round_trips_needed(profile);
    const std::vector<Duration> planned =
        probe_times(since_start() + kSettle, length, kSpacing, plan_.seed);
    OUTRIDER_ASSIGN_OR_RETURN(const RoundTrips measured,
                              probe_round_trips(link_, start(), planned));
    const std::vector<double> achieved = arrived(measured.ms);
    figures()["probes"] = {{"sent", measured.times.size()}, {"back", achieved.size()}};
    return is_trace(profile.up) || is_trace(profile.down) ? judge_by_trace(measured)
                                                          : judge_by_law(achieved);
  }

  Status measure_rates() {
    const LinkProfile& profile = link_.profile();
    const NetworkSide edge = link_.edge_side(), server = link_.server_side();
    if (profile.up.has_rate())
      OUTRIDER_RETURN_IF_ERROR(measure_rate("up", profile.up, edge, server));
    if (profile.down.has_rate()) {
      OUTRIDER_RETURN_IF_ERROR(measure_rate("down", profile.down, server, edge));
    }
    return {};
  }

  // The forwarder's counts so far, under the name `of`.
  void judge_lateness(const std::string& of) {
    const std::vector<std::uint64_t> counts = link_.forwarder().lateness().counts();
    if (std::ranges::all_of(counts, [](std::uint64_t count) { return count == 0; })) return;
    const double step_ms = to_ms(Lateness::kStep);
    figures()["late_ms"][of] = {{"p50", counted_quantile(counts, step_ms, 0.5).value},
                                {"p99", counted_quantile(counts, step_ms, 0.99).value},
                                {"p100", counted_quantile(counts, step_ms, 1).value}};
    add_bar("p99 late, " + of + ", ms", counted_quantile(counts, step_ms, 0.99), kLateMs,
            Bar::Side::kAtMost);
  }

  Accuracy take() { return std::move(accuracy_); }

 private:
  Json& figures() { return accuracy_.figures; }
  TimePoint start() const { return link_.forwarder().start_time(); }
  Duration since_start() const { return SystemClock().now() - start(); }

  Status judge_by_law(const std::vector<double>& achieved) {
    const std::vector<double> law = law_of(link_.profile());
    if (law.empty()) {
      add_bar("answers", exactly(static_cast<double>(achieved.size())), 0, Bar::Side::kAtMost);
      return {};
    }
    if (achieved.empty()) return no_answer();
    const double asked = quantile(law, 0.5);
    report_round_trips(law, achieved);
    add_bar("rtt p50 error, ms", less(sample_quantile(achieved, 0.5), asked),
            allowed_error_ms(asked), Bar::Side::kWithin);
    return {};
  }

  // A trace gives each moment its own delay. So the expectation uses the actual times of sending,
  // and each probe has its own value.
  Status judge_by_trace(const RoundTrips& measured) {
    const std::vector<std::optional<double>> asked =
        expected_round_trips(link_.profile(), kProbeBytes, measured.times, plan_.seed);
    const std::vector<double> errors = paired_errors(measured.ms, asked);
    if (errors.empty()) return no_answer();
    report_round_trips(arrived(asked), arrived(measured.ms));
    add_bar("rtt p50 error, ms", sample_quantile(errors, 0.5),
            allowed_error_ms(quantile(arrived(asked), 0.5)), Bar::Side::kWithin);
    return {};
  }

  Status no_answer() const { return unavailable(link_.profile().name + ": no probe came back"); }

  void report_round_trips(const std::vector<double>& asked, const std::vector<double>& achieved) {
    figures()["rtt_ms"] = {{"asked_p50", quantile(asked, 0.5)},
                           {"achieved_p50", quantile(achieved, 0.5)},
                           {"asked_p99", quantile(asked, 0.99)},
                           {"achieved_p99", quantile(achieved, 0.99)}};
  }

  void add_bar(const std::string& name, const Estimate& value, double limit, Bar::Side side) {
    accuracy_.bars.push_back({link_.profile().name + " " + name, value, limit, side});
  }

  Status measure_rate(const std::string& direction, const PathSettings& path,
                      const NetworkSide& from, const NetworkSide& to) {
    Flood flood;
    flood.from = since_start() + kSettle;
    flood.length = plan_.flood;
    const bool by_trace = path.rates != nullptr || path.opportunities != nullptr;
    if (flood.length == Duration::zero()) flood.length = flood_length(path);
    flood.bit_per_s = by_trace ? 1.2 * peak_rate(path, flood) : 1.25 * path.bit_per_s;
    // The time in which the queue and the way drain, so that the next measurement starts with an
    // empty queue.
    const double queue_s =
        by_trace ? 1 : static_cast<double>(path.queue_bytes) * 8 / path.bit_per_s;
    const Duration drain = from_ms(queue_s * 1e3) + path.delay + milliseconds(300);
    OUTRIDER_ASSIGN_OR_RETURN(const FloodResult result,
                              flood_link(from, to, start(), flood, drain));
    return by_trace ? judge_windows(direction, path, flood, result)
                    : judge_rate(direction, path, flood, result);
  }

  // A trace's windows; otherwise so long that a few bursts of losses or of delayed packets weigh
  // little.
  static Duration flood_length(const PathSettings& path) {
    if (path.rates != nullptr || path.opportunities != nullptr) return seconds(61);
    const bool bursts = path.loss.burst.to_bad > 0 || path.jitter.deviation > Duration::zero();
    return bursts ? seconds(24) : seconds(6);
  }

  // The most bytes that the trace lets pass in a tenth of a second.
  static double peak_rate(const PathSettings& path, const Flood& flood) {
    constexpr Duration kTenth = milliseconds(100);
    double most = 0;
    for (Duration at = flood.from; at < flood.from + flood.length; at += kTenth) {
      most = std::max(most, Bottleneck::capacity(path, at, at + kTenth));
    }
    return most * 8 / to_seconds(kTenth);
  }

  Status judge_rate(const std::string& direction, const PathSettings& path, const Flood& flood,
                    const FloodResult& result) {
    constexpr Duration kBin = milliseconds(500);
    const Duration from = flood.from + path.delay + kWarmUp;
    const Duration to = flood.from + path.delay + flood.length;
    std::vector<double> bins;
    for (Duration at = from; at + kBin <= to; at += kBin) {
      bins.push_back(result.bytes_between(at, at + kBin) * 8e-6 / to_seconds(kBin));
    }
    const double asked =
        path.bit_per_s * 1e-6 * (1 - expected_loss(path.loss, from - path.delay, to - path.delay));
    const std::optional<Estimate> error =
        bootstrap(bins.size(), [&](std::span<const std::size_t> indices) -> std::optional<double> {
          if (indices.empty()) return std::nullopt;
          double sum = 0;
          for (const std::size_t index : indices) sum += bins[index];
          return sum / static_cast<double>(indices.size()) / asked - 1;
        });
    if (!error) return invalid_argument("the flood is too short: at least 3 s are needed");
    figures()["mbit_s"][direction] = {{"asked", asked}, {"achieved", asked * (1 + error->value)}};
    add_bar("rate " + direction + " error", *error, kRateShare, Bar::Side::kWithin);
    return {};
  }

  // Whole windows only; the worst one decides.
  Status judge_windows(const std::string& direction, const PathSettings& path, const Flood& flood,
                       const FloodResult& result) {
    double worst = 0;
    Json windows = Json::array();
    // Opportunities are at whole milliseconds, so the windows' edges are between them.
    const Duration first =
        std::chrono::ceil<milliseconds>(flood.from + kWarmUp) + std::chrono::microseconds(500);
    for (Duration at = first; at + kWindow <= flood.from + flood.length; at += kWindow) {
      const double asked = Bottleneck::capacity(path, at, at + kWindow);
      // If the delay comes from a trace, its mean over the window shifts the window's edges.
      const Duration delay = path.delays == nullptr ? path.delay : mean_delay(path);
      const double achieved = result.bytes_between(at + delay, at + kWindow + delay);
      const double error = asked > 0 ? achieved / asked - 1 : (achieved > 0 ? 1 : 0);
      if (std::abs(error) > std::abs(worst)) worst = error;
      windows.push_back({{"from_s", to_seconds(at)}, {"asked", asked}, {"achieved", achieved}});
    }
    if (windows.empty()) return invalid_argument("a trace's flood needs at least 11 s");
    figures()["windows"][direction] = std::move(windows);
    add_bar("worst window " + direction + " error", exactly(worst), kWindowShare,
            Bar::Side::kWithin);
    return {};
  }

  static Duration mean_delay(const PathSettings& path) {
    Duration sum{0};
    for (const Duration delay : path.delays->delays) sum += delay;
    return sum / static_cast<Duration::rep>(path.delays->delays.size());
  }

  const TunLink& link_;
  const AccuracyPlan plan_;
  Accuracy accuracy_;
};

}  // namespace

Duration round_trips_needed(const LinkProfile& profile) {
  // Half of the interval is two standard errors, and the median itself may be off by four: jitter
  // is correlated from probe to probe, so the true errors are larger than assumed here.
  constexpr double kErrors = 6.5;
  constexpr Duration kLeast = seconds(15), kMost = seconds(300);
  if (is_trace(profile.up) || is_trace(profile.down)) return kLeast;
  if (is_dead(profile.up) || is_dead(profile.down)) return kLeast;
  const std::vector<double> law = law_of(profile);
  if (law.empty()) return kLeast;
  const double errors = kErrors * median_spread_ms(law) / allowed_error_ms(quantile(law, 0.5));
  return std::clamp(Duration(std::llround(errors * errors * to_seconds(kSpacing) * 1e9)), kLeast,
                    kMost);
}

Result<Accuracy> measure_accuracy(const LinkProfile& profile, const AccuracyPlan& plan) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<TunLink> link,
                            TunLink::start(profile, plan.seed));
  Measurement measurement(*link, plan);
  OUTRIDER_RETURN_IF_ERROR(measurement.measure_round_trips());
  // Judged apart, because the many packets of a flood would hide the tail of the few probes.
  measurement.judge_lateness("probes");
  OUTRIDER_RETURN_IF_ERROR(measurement.measure_rates());
  measurement.judge_lateness("all");
  Accuracy accuracy = measurement.take();
  accuracy.figures["asked"] = profile.description();
  accuracy.figures["link"] = link->kind();
  accuracy.figures["real_time"] = link->forwarder().is_real_time();
  return accuracy;
}

}  // namespace outrider
