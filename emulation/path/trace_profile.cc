// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/trace_profile.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "emulation/path/impaired_path.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

constexpr double kMaxSeconds = 1e6;  // eleven days
constexpr std::uint32_t kMaxMs = 1'000'000'000;
constexpr double kMaxMbit = 1e6;
constexpr double kMinMeanBitPerS = 1000;
constexpr double kMaxDelayMs = 60'000;
constexpr Duration kDelayStep = milliseconds(10);

constexpr std::string_view kBlanks = " \t\r";

// The excerpt of a line that an error message quotes; the line may come from anybody.
std::string quoted(std::string_view line) {
  constexpr std::size_t kShown = 40;
  std::string text = "'";
  for (const char c : line.substr(0, kShown)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (line.size() > kShown ? "..'" : "'");
}

Status bad_line(const std::string& name, std::size_t number, const std::string& problem) {
  return invalid_argument(name + ":" + std::to_string(number) + ": " + problem);
}

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  std::size_t at = 0;
  while ((at = line.find_first_not_of(kBlanks, at)) != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    columns.push_back(line.substr(at, end - at));
    at = end;
    if (columns.size() > 2) break;  // too many columns are an error, whatever their number
  }
  return columns;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

using Columns = std::vector<std::string_view>;
using TakeLine = std::function<Status(const Columns&, std::size_t number, std::string_view line)>;

// Passes on each line that is not blank. It must have `columns` columns.
Status for_each_row(std::string_view text, const std::string& name, std::size_t columns,
                    const TakeLine& take) {
  if (text.empty()) return invalid_argument(name + ": the trace has zero bytes");
  std::size_t number = 0, rows = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const Columns found = columns_of(line);
    if (found.empty()) continue;
    if (found.size() != columns) {
      return bad_line(name, number,
                      "expected " + std::to_string(columns) +
                          (columns == 1 ? " number" : " numbers") + ", found " + quoted(line));
    }
    OUTRIDER_RETURN_IF_ERROR(take(found, number, line));
    ++rows;
  }
  if (rows == 0) return invalid_argument(name + ": the trace has no line that is not blank");
  return {};
}

Status check_rate_trace(const RateTrace& trace, const std::string& name) {
  double bits = 0;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const Duration end = i + 1 < trace.steps.size() ? trace.steps[i + 1].from : trace.period;
    bits += trace.steps[i].bit_per_s * to_seconds(end - trace.steps[i].from);
  }
  if (bits / to_seconds(trace.period) < kMinMeanBitPerS) {
    return invalid_argument(name +
                            ": lets less than 1 kbit/s pass on the mean; for a dead link use "
                            "profile offline");
  }
  return {};
}

}  // namespace

Result<OpportunityTrace> parse_opportunities(std::string_view text, const std::string& name) {
  OpportunityTrace trace;
  const auto take = [&](const Columns& columns, std::size_t number,
                        std::string_view line) -> Status {
    const auto ms = number_of<std::uint32_t>(columns[0]);
    if (!ms || *ms > kMaxMs) {
      return bad_line(
          name, number,
          "expected milliseconds, a whole number from 0 to 1000000000, found " + quoted(line));
    }
    if (!trace.ms.empty() && *ms < trace.ms.back()) {
      return bad_line(name, number,
                      quoted(line) + " goes back in time: the line before says " +
                          std::to_string(trace.ms.back()));
    }
    trace.ms.push_back(*ms);
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_row(text, name, 1, take));
  if (trace.ms.back() == 0) {
    return invalid_argument(name +
                            ": ends at 0 ms, so it has no duration; the last time is the period");
  }
  return trace;
}

Result<RateTrace> parse_rates(std::string_view text, const std::string& name) {
  RateTrace trace;
  double first = 0, last = 0;
  const auto take = [&](const Columns& columns, std::size_t number,
                        std::string_view line) -> Status {
    const auto seconds = number_of<double>(columns[0]);
    const auto mbit = number_of<double>(columns[1]);
    // Written so that NaN fails the test too.
    if (!seconds || !(*seconds >= 0 && *seconds <= kMaxSeconds)) {
      return bad_line(name, number, "expected seconds from 0 to 1e6 first, found " + quoted(line));
    }
    if (!mbit || !(*mbit >= 0 && *mbit <= kMaxMbit)) {
      return bad_line(name, number, "expected Mbit/s from 0 to 1e6 second, found " + quoted(line));
    }
    if (trace.steps.empty()) first = *seconds;
    const Duration from = from_ms((*seconds - first) * 1e3);
    if (!trace.steps.empty() && from <= trace.steps.back().from) {
      return bad_line(name, number, quoted(line) + " goes back in time, or stands still");
    }
    last = *seconds;
    trace.steps.push_back({from, *mbit * 1e6});
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_row(text, name, 2, take));
  // The last rate lasts as long as the mean step.
  const std::size_t gaps = trace.steps.size() - 1;
  trace.period = trace.steps.back().from +
                 from_ms(gaps == 0 ? 1e3 : (last - first) * 1e3 / static_cast<double>(gaps));
  if (trace.period <= trace.steps.back().from) trace.period = trace.steps.back().from + Duration(1);
  OUTRIDER_RETURN_IF_ERROR(check_rate_trace(trace, name));
  return trace;
}

Result<DelayTrace> parse_delays(std::string_view text, const std::string& name) {
  DelayTrace trace;
  trace.step = kDelayStep;
  const auto take = [&](const Columns& columns, std::size_t number,
                        std::string_view line) -> Status {
    const auto ms = number_of<double>(columns[0]);
    if (!ms || !(*ms >= 0 && *ms <= kMaxDelayMs)) {
      return bad_line(name, number, "expected a delay from 0 to 60000 ms, found " + quoted(line));
    }
    trace.delays.push_back(from_ms(*ms));
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_row(text, name, 1, take));
  return trace;
}

bool has_two_columns(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Columns columns = columns_of(text.substr(0, end));
    if (!columns.empty()) return columns.size() == 2;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

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

// The file whose name differs by `to` instead of `from` at its end (or start); nothing if this name
// has no `from`, or there is no such file.
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

// A file of delays. Rates come from the file beside it, if there is one.
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
