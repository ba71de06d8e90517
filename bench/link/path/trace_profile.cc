// SPDX-License-Identifier: Apache-2.0
#include "bench/link/path/trace_profile.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "bench/link/path/bottleneck.h"
#include "bench/link/path/trace_file.h"
#include "common/base/files.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxTraceBytes = std::int64_t{64} << 20;
constexpr Duration kAssumedDelay = std::chrono::milliseconds(20);
constexpr std::size_t kAssumedQueue = 100 * Bottleneck::kOpportunityBytes;

Status read_rates(const std::string& file, PathSettings& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(file, kMaxTraceBytes));
  path.queue_bytes = kAssumedQueue;
  if (has_two_columns(text)) {
    OUTRIDER_ASSIGN_OR_RETURN(RateTrace trace, parse_rates(text, file));
    path.rates = std::make_shared<const RateTrace>(std::move(trace));
    return {};
  }
  OUTRIDER_ASSIGN_OR_RETURN(OpportunityTrace trace, parse_opportunities(text, file));
  path.opportunities = std::make_shared<const OpportunityTrace>(std::move(trace));
  return {};
}

Status read_delays(const std::string& file, LinkProfile& profile) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(file, kMaxTraceBytes));
  OUTRIDER_ASSIGN_OR_RETURN(DelayTrace trace, parse_delays(text, file));
  profile.up.delays = std::make_shared<const DelayTrace>(std::move(trace));
  profile.down.delays = profile.up.delays;
  return {};
}

// The file whose name has `to` where this one's has `from` at its end (or start); nothing if this
// one's has not, or no such file is there.
std::optional<std::string> sibling(const std::filesystem::path& file, const std::string& from,
                                   const std::string& to, bool at_end) {
  std::string name = file.filename().string();
  if (at_end ? !name.ends_with(from) : !name.starts_with(from)) return std::nullopt;
  name.replace(at_end ? name.size() - from.size() : 0, from.size(), to);
  std::error_code ignored;
  const std::filesystem::path found = file.parent_path() / name;
  if (!std::filesystem::exists(found, ignored)) return std::nullopt;
  return found.string();
}

std::string name_of(const std::filesystem::path& file) {
  return file.filename().string();
}

// A file of delays: rates come from the file beside it, if there is one.
Status load_delay_file(const std::string& file, LinkProfile& profile) {
  OUTRIDER_RETURN_IF_ERROR(read_delays(file, profile));
  const std::optional<std::string> rates = sibling(file, "delay_", "bw_", false);
  if (!rates) {
    profile.chosen = "no limit of the rate";
    return {};
  }
  OUTRIDER_RETURN_IF_ERROR(read_rates(*rates, profile.down));
  OUTRIDER_RETURN_IF_ERROR(read_rates(*rates, profile.up));
  profile.chosen = "the trace's rates and delays in both directions, queue";
  profile.source += " with " + name_of(*rates);
  return {};
}

Status load_rate_file(const std::string& file, LinkProfile& profile) {
  const std::optional<std::string> down = sibling(file, ".up", ".down", true);
  const std::optional<std::string> up = sibling(file, ".down", ".up", true);
  const std::optional<std::string> delays = sibling(file, "bw_", "delay_", false);
  OUTRIDER_RETURN_IF_ERROR(read_rates(down.value_or(file), profile.down));
  OUTRIDER_RETURN_IF_ERROR(read_rates(up.value_or(file), profile.up));
  profile.chosen = "queue of 100 packets";
  if (down || up) {
    profile.source += " with " + name_of(down ? *down : *up);
  } else {
    profile.chosen += ", the same rates in both directions (the trace has one)";
  }
  if (delays) {
    profile.source += " with " + name_of(*delays);
    profile.chosen += ", the same delays in both directions";
    return read_delays(*delays, profile);
  }
  profile.up.delay = kAssumedDelay;
  profile.down.delay = kAssumedDelay;
  profile.chosen += ", 20 ms one way (the trace has no delay)";
  return {};
}

}  // namespace

Result<LinkProfile> load_trace_profile(const std::string& file, Duration offset) {
  LinkProfile profile;
  profile.name = "trace:" + name_of(file);
  profile.source = name_of(file);
  const bool holds_delays = name_of(file).starts_with("delay_");
  OUTRIDER_RETURN_IF_ERROR(holds_delays ? load_delay_file(file, profile)
                                        : load_rate_file(file, profile));
  profile.up.trace_offset = offset;
  profile.down.trace_offset = offset;
  if (offset > Duration::zero()) {
    char text[48];
    std::snprintf(text, sizeof text, " from %g s", to_seconds(offset));
    profile.source += text;
  }
  return profile;
}

}  // namespace outrider
