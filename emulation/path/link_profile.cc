// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/link_profile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <utility>

#include "emulation/path/impaired_path.h"

namespace outrider {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string rate_of(const PathSettings& path) {
  if (path.opportunities != nullptr || path.rates != nullptr) return "by the trace";
  return path.bit_per_s > 0 ? number(path.bit_per_s / 1e6) + " Mbit/s" : "no limit";
}

std::string jitter_of(const PathSettings& path) {
  if (path.jitter.law == JitterSettings::Law::kNone) return "";
  const char* law = path.jitter.law == JitterSettings::Law::kNormal ? "normal" : "Pareto";
  return std::string(" (") + law + ", deviation " + number(to_ms(path.jitter.deviation)) +
         ", at least " + number(to_ms(Jitter::floor_of(path))) + ", correlation " +
         number(to_ms(path.jitter.correlation)) + " ms)";
}

std::string delay_of(const PathSettings& path) {
  if (path.delays != nullptr) return "delay by the trace";
  return number(to_ms(path.delay)) + " ms" + jitter_of(path);
}

std::string loss_of(const PathSettings& path) {
  std::string text;
  if (const double mean = mean_loss(path.loss); mean > 0) {
    text +=
        ", " + number(mean * 100) + " % lost" + (path.loss.burst.to_bad > 0 ? " in bursts" : "");
  }
  for (const LossWindow& window : path.loss.windows) {
    text +=
        ", " + number(window.share * 100) + " % lost for " + number(to_ms(window.length)) + " ms" +
        (window.period > Duration::zero() ? " every " + number(to_seconds(window.period)) + " s"
                                          : " after " + number(to_seconds(window.first)) + " s");
  }
  if (path.duplicate > 0) text += ", " + number(path.duplicate * 100) + " % twice";
  if (path.reorder > 0) {
    text += ", " + number(path.reorder * 100) + " % overtaken, " + number(to_ms(path.reorder_by)) +
            " ms late";
  }
  return text;
}

std::string description_of(const PathSettings& path) {
  if (path.silent_from && *path.silent_from == Duration::zero()) return "nothing arrives";
  std::string text = delay_of(path) + ", " + rate_of(path);
  if (path.has_rate())
    text += ", queue " + number(static_cast<double>(path.queue_bytes) / 1024) + " KiB";
  text += loss_of(path);
  if (path.silent_from) text += ", silent from " + number(to_seconds(*path.silent_from)) + " s";
  return text;
}

}  // namespace

std::string LinkProfile::description() const {
  const std::string upwards = description_of(up), downwards = description_of(down);
  std::string text = name + ": ";
  text += upwards == downwards ? "each way " + upwards : "up " + upwards + "; down " + downwards;
  if (reset_at) text += "; reset after " + number(to_seconds(*reset_at)) + " s";
  if (!chosen.empty()) text += "; chosen: " + chosen;
  if (!source.empty()) text += "; source: " + source;
  return text;
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Law = JitterSettings::Law;

// Figures of the round trip. Each direction has half of the delay and of the variance.
struct Row {
  const char* name;
  double rtt_ms;
  Law law = Law::kNone;
  double deviation_ms = 0;  // of the round trip
  double floor_ms = 0;      // of the round trip; kNormal only
  double down_mbit_s = 0;   // 0: no limit
  double up_mbit_s = 0;
  double loss_percent = 0;
  const char* chosen = "";
  const char* source = "";
};

constexpr std::array kTable = {
    Row{.name = "ethernet", .rtt_ms = 1, .chosen = "round trip"},
    Row{.name = "wifi",
        .rtt_ms = 20,
        .law = Law::kPareto,
        .deviation_ms = 10,
        .down_mbit_s = 30,
        .up_mbit_s = 30,
        .loss_percent = 0.2,
        .chosen = "jitter, its law and correlation, the rate upwards",
        .source = "round trip, loss: Codavel Wi-Fi; rate: comcast WIFI"},
    Row{.name = "wifi-roam",
        .rtt_ms = 20,
        .law = Law::kPareto,
        .deviation_ms = 10,
        .down_mbit_s = 30,
        .up_mbit_s = 30,
        .loss_percent = 0.2,
        .chosen = "jitter, its law and correlation, the rate upwards, a gap of 200 ms every 30 s",
        .source = "round trip, loss: Codavel Wi-Fi; rate: comcast WIFI"},
    Row{.name = "5g",
        .rtt_ms = 20,
        .law = Law::kNormal,
        .deviation_ms = 5,
        .floor_ms = 8,
        .down_mbit_s = 100,
        .up_mbit_s = 20,
        .chosen = "jitter, its law, correlation and floor, rates",
        .source = "round trip: between the one-way delays of 5G NSA in Munich, <7 and 18 ms"},
    Row{.name = "lte",
        .rtt_ms = 70,
        .law = Law::kNormal,
        .deviation_ms = 15,
        .floor_ms = 30,
        .down_mbit_s = 12,
        .up_mbit_s = 12,
        .loss_percent = 0.1,
        .chosen = "jitter, its law, correlation and floor, loss",
        .source = "round trip, rates: WebPageTest LTE"},
    Row{.name = "4g-fast",
        .rtt_ms = 60,
        .down_mbit_s = 9,
        .up_mbit_s = 1.5,
        .source = "Chrome Fast 4G, its targets"},
    Row{.name = "4g-slow",
        .rtt_ms = 150,
        .down_mbit_s = 1.6,
        .up_mbit_s = 0.75,
        .source = "Chrome Slow 4G, its targets"},
    Row{.name = "3g",
        .rtt_ms = 300,
        .down_mbit_s = 1.6,
        .up_mbit_s = 0.768,
        .source = "WebPageTest 3G"},
    Row{.name = "3g-slow",
        .rtt_ms = 400,
        .down_mbit_s = 0.4,
        .up_mbit_s = 0.4,
        .source = "WebPageTest 3GSlow"},
    Row{.name = "starlink",
        .rtt_ms = 45,
        .law = Law::kNormal,
        .deviation_ms = 10,
        .floor_ms = 20,
        .down_mbit_s = 105,
        .up_mbit_s = 15,
        .chosen = "jitter's law and correlation, the rate upwards, the burst's 100 ms",
        .source = "published measurements of 2022 to 2025: round trip, floor, rate downwards, 50 % "
                  "lost at handovers, slots of 15 s"},
    Row{.name = "satellite",
        .rtt_ms = 600,
        .down_mbit_s = 1,
        .up_mbit_s = 0.256,
        .source = "Loadero Satellite phone"},
    Row{.name = "flaky",
        .rtt_ms = 100,
        .law = Law::kNormal,
        .deviation_ms = 30,
        .floor_ms = 40,
        .down_mbit_s = 10,
        .up_mbit_s = 5,
        .chosen =
            "round trip, jitter, rates, bursts (half of the packets lost, 5 to 6 packets long)",
        .source = "5 % lost in bursts"},
    Row{.name = "offline", .rtt_ms = 0, .source = "nothing arrives"},
};

// Shorter than the time between an answer's messages, so that each has its own delay. Longer than a
// burst of packets, so that these keep their distances.
constexpr Duration kCorrelation = milliseconds(10);
constexpr std::size_t kSmallestQueue = std::size_t{64} << 10;

std::size_t queue_for(double bit_per_s, Duration rtt) {
  const double held = bit_per_s / 8 * std::max(to_seconds(rtt), 0.1);
  return std::max(kSmallestQueue, static_cast<std::size_t>(held));
}

PathSettings direction(const Row& row, double mbit_s) {
  PathSettings path;
  path.delay = from_ms(row.rtt_ms / 2);
  path.jitter.law = row.law;
  path.jitter.deviation = from_ms(row.deviation_ms / std::numbers::sqrt2);
  path.jitter.floor = from_ms(row.floor_ms / 2);
  path.jitter.correlation = kCorrelation;
  path.bit_per_s = mbit_s * 1e6;
  if (mbit_s > 0) path.queue_bytes = queue_for(path.bit_per_s, from_ms(row.rtt_ms));
  path.loss.share = row.loss_percent / 100;
  return path;
}

// Adds the faults that the columns of the table do not hold.
void add_faults(LinkProfile& profile, PathSettings& path) {
  if (profile.name == "wifi-roam") {
    path.loss.windows = {
        {.first = seconds(10), .length = milliseconds(200), .period = seconds(30)}};
  } else if (profile.name == "starlink") {
    path.loss.windows = {
        {.first = seconds(5), .length = milliseconds(100), .period = seconds(15), .share = 0.5}};
  } else if (profile.name == "flaky") {
    path.loss.burst = {.to_bad = 0.02, .to_good = 0.18, .loss_when_bad = 0.5};
  } else if (profile.name == "offline") {
    path.silent_from = Duration::zero();
  }
}

}  // namespace

std::vector<LinkProfile> link_profiles() {
  std::vector<LinkProfile> profiles;
  for (const Row& row : kTable) {
    LinkProfile profile;
    profile.name = row.name;
    profile.up = direction(row, row.up_mbit_s);
    profile.down = direction(row, row.down_mbit_s);
    profile.chosen = row.chosen;
    profile.source = row.source;
    if (profile.up.has_rate()) profile.chosen += profile.chosen.empty() ? "queue" : ", queue";
    add_faults(profile, profile.up);
    add_faults(profile, profile.down);
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

LinkProfile delay_profile(Duration one_way) {
  LinkProfile profile;
  profile.name = "delay";
  profile.up.delay = one_way;
  profile.down.delay = one_way;
  return profile;
}

Result<LinkProfile> find_link_profile(const std::string& name) {
  std::string names;
  for (LinkProfile& profile : link_profiles()) {
    if (profile.name == name) return std::move(profile);
    names += " " + profile.name;
  }
  return invalid_argument("network profile '" + name + "': unknown; there are" + names +
                          " and trace:FILE");
}

std::vector<Duration> probe_times(Duration from, Duration length, Duration spacing,
                                  std::uint64_t seed) {
  SeededRandom random(seed);
  std::vector<Duration> times;
  for (Duration at = from; at < from + length;) {
    times.push_back(at);
    at += from_ms(to_ms(spacing) * (0.75 + 0.5 * random.uniform()));
  }
  return times;
}

std::vector<std::optional<double>> expected_round_trips(const LinkProfile& profile,
                                                        std::size_t bytes,
                                                        std::span<const Duration> times,
                                                        std::uint64_t seed) {
  ImpairedPath up(profile.up, 2 * seed), down(profile.down, 2 * seed + 1);
  std::vector<std::pair<Duration, std::size_t>> answered;  // when the server answers, which packet
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Fate fate = up.send(bytes, times[i]);
    if (fate.arrives()) answered.emplace_back(fate.due, i);
  }
  std::sort(answered.begin(), answered.end());
  std::vector<std::optional<double>> round_trips(times.size());
  for (const auto& [at, i] : answered) {
    const Fate fate = down.send(bytes, at);
    if (fate.arrives()) round_trips[i] = to_ms(fate.due - times[i]);
  }
  return round_trips;
}

std::vector<double> arrived(std::span<const std::optional<double>> round_trips) {
  std::vector<double> found;
  for (const std::optional<double>& one : round_trips) {
    if (one) found.push_back(*one);
  }
  return found;
}

double expected_loss(const LossSettings& settings, Duration from, Duration to) {
  constexpr Duration kStep = std::chrono::milliseconds(1);
  LossSettings elsewhere = settings;
  elsewhere.windows.clear();
  double passed = 0;
  int steps = 0;
  for (Duration at = from; at < to; at += kStep, ++steps) passed += 1 - window_loss(settings, at);
  const double in_windows = steps > 0 ? passed / steps : 1;
  return 1 - in_windows * (1 - mean_loss(elsewhere));
}

}  // namespace outrider
