// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/link_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "emulation/path/trace_profile.h"

namespace outrider {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array kTimes = {Unit{"ms", 1e-3}, Unit{"s", 1}};
constexpr std::array kShares = {Unit{"%", 1e-2}};
constexpr std::array kRates = {Unit{"kbit", 1e3}, Unit{"mbit", 1e6}, Unit{"gbit", 1e9}};
constexpr std::array kSizes = {Unit{"kb", 1024}, Unit{"mb", 1024 * 1024}};
constexpr double kMaxTimeS = 1e6;

template <std::size_t n>
std::optional<double> value_in(std::string_view text, const std::array<Unit, n>& units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0 && value <= 1e12)) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& one : units) {
    if (one.name == unit) return value * one.factor;
  }
  return std::nullopt;
}

std::optional<Duration> time_in(std::string_view text) {
  const std::optional<double> seconds = value_in(text, kTimes);
  if (!seconds || *seconds > kMaxTimeS) return std::nullopt;
  return from_ms(*seconds * 1e3);
}

std::optional<double> share_in(std::string_view text) {
  const std::optional<double> share = value_in(text, kShares);
  if (!share || *share > 1) return std::nullopt;
  return share;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// Each returns what it expects if the value is wrong, and nothing if it is right.
using Refusal = const char*;

Refusal set_delay(PathSettings& path, std::string_view value) {
  const std::optional<Duration> delay = time_in(value);
  if (!delay) return "a time such as 20ms";
  if (path.jitter.law != JitterSettings::Law::kNone) {
    if (*delay < path.jitter.deviation) return "a delay of at least the jitter's deviation";
    path.jitter.floor = std::min(path.jitter.floor, *delay);
  }
  path.delay = *delay;
  path.delays = nullptr;
  return nullptr;
}

Refusal set_rate(PathSettings& path, std::string_view value) {
  const std::optional<double> rate = value_in(value, kRates);
  if (!rate || *rate < 1000) return "a rate of at least 1kbit, such as 5mbit";
  path.bit_per_s = *rate;
  path.rates = nullptr;
  path.opportunities = nullptr;
  if (path.queue_bytes == 0) path.queue_bytes = std::size_t{64} << 10;
  return nullptr;
}

Refusal set_queue(PathSettings& path, std::string_view value) {
  const std::optional<double> bytes = value_in(value, kSizes);
  if (!bytes || *bytes < 1024) return "a size of at least 1kb, such as 64kb";
  if (!path.has_rate()) return "a link with a rate: without one there is no queue";
  path.queue_bytes = static_cast<std::size_t>(*bytes);
  return nullptr;
}

Refusal set_loss(PathSettings& path, std::string_view value) {
  const std::optional<double> share = share_in(value);
  if (!share) return "a share from 0% to 100%";
  path.loss.share = *share;
  return nullptr;
}

Refusal set_duplicate(PathSettings& path, std::string_view value) {
  const std::optional<double> share = share_in(value);
  if (!share) return "a share from 0% to 100%";
  path.duplicate = *share;
  return nullptr;
}

Refusal set_reorder(PathSettings& path, std::string_view value) {
  const std::vector<std::string_view> parts = split(value, '/');
  const std::optional<double> share = share_in(parts[0]);
  const std::optional<Duration> by = parts.size() == 2 ? time_in(parts[1]) : std::nullopt;
  if (!share || !by) return "a share and a time, such as 1%/30ms";
  path.reorder = *share;
  path.reorder_by = *by;
  return nullptr;
}

Refusal add_blackout(PathSettings& path, std::string_view value) {
  constexpr Refusal kExpected = "first, length and perhaps period, such as 10s/500ms/30s";
  const std::vector<std::string_view> parts = split(value, '/');
  if (parts.size() < 2 || parts.size() > 3) return kExpected;
  const std::optional<Duration> first = time_in(parts[0]), length = time_in(parts[1]);
  const std::optional<Duration> period = parts.size() == 3 ? time_in(parts[2]) : Duration::zero();
  if (!first || !length || !period) return kExpected;
  if (parts.size() == 3 && *period <= *length) return "a period that is longer than the length";
  path.loss.windows.push_back({.first = *first, .length = *length, .period = *period});
  return nullptr;
}

Refusal set_silent(PathSettings& path, std::string_view value) {
  const std::optional<Duration> from = time_in(value);
  if (!from) return "a time such as 5s";
  path.silent_from = from;
  return nullptr;
}

struct Change {
  std::string_view key;
  Refusal (*apply)(PathSettings&, std::string_view);
};
constexpr std::array kChanges = {
    Change{"delay", set_delay},         Change{"rate", set_rate},
    Change{"queue", set_queue},         Change{"loss", set_loss},
    Change{"duplicate", set_duplicate}, Change{"reorder", set_reorder},
    Change{"blackout", add_blackout},   Change{"silent", set_silent},
};

Status refuse(std::string_view change, Refusal expected) {
  return invalid_argument("network: '" + std::string(change) + "': expected " + expected);
}

Status apply_change(LinkProfile& profile, std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return refuse(text, "KEY=VALUE after a '+'");
  std::string_view key = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  if (key == "reset") {
    profile.reset_at = time_in(value);
    return profile.reset_at ? Status() : refuse(text, "a time such as 5s");
  }
  const bool only_up = key.starts_with("up."), only_down = key.starts_with("down.");
  if (only_up || only_down) key.remove_prefix(key.find('.') + 1);
  for (const Change& change : kChanges) {
    if (change.key != key) continue;
    Refusal refusal = nullptr;
    if (!only_down) refusal = change.apply(profile.up, value);
    if (!only_up && refusal == nullptr) refusal = change.apply(profile.down, value);
    return refusal == nullptr ? Status() : refuse(text, refusal);
  }
  return refuse(text,
                "one of delay rate queue loss duplicate reorder blackout silent, perhaps after up. "
                "or down., or reset");
}

Result<LinkProfile> parse_trace(std::string_view text) {
  Duration offset{0};
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    const std::optional<Duration> parsed = time_in(text.substr(at + 1));
    if (!parsed) return refuse(text, "a time such as 30s after the '@'");
    offset = *parsed;
    text = text.substr(0, at);
  }
  if (text.empty()) return refuse("trace:", "the path of a trace file after it");
  return load_trace_profile(std::string(text), offset);
}

}  // namespace

Result<LinkProfile> parse_link(const std::string& spec) {
  constexpr std::string_view kTrace = "trace:";
  const std::vector<std::string_view> parts = split(spec, '+');
  const bool is_trace = parts[0].starts_with(kTrace);
  const bool changes_alone = !is_trace && parts[0].find('=') != std::string_view::npos;
  LinkProfile profile = delay_profile(Duration{0});
  if (is_trace) {
    OUTRIDER_ASSIGN_OR_RETURN(profile, parse_trace(parts[0].substr(kTrace.size())));
  } else if (!changes_alone) {
    OUTRIDER_ASSIGN_OR_RETURN(profile, find_link_profile(std::string(parts[0])));
  }
  for (std::size_t i = changes_alone ? 0 : 1; i < parts.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(apply_change(profile, parts[i]));
  }
  profile.name = changes_alone ? spec : profile.name + spec.substr(parts[0].size());
  return profile;
}

Result<std::vector<LinkProfile>> parse_links(const std::string& specs) {
  if (specs == "all") return link_profiles();
  std::vector<LinkProfile> profiles;
  for (const std::string_view spec : split(specs, ',')) {
    OUTRIDER_ASSIGN_OR_RETURN(LinkProfile profile, parse_link(std::string(spec)));
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace outrider
