// SPDX-License-Identifier: Apache-2.0
#include "bench/link/path/trace_file.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

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

// What a message shows of a line that a stranger wrote.
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
    if (columns.size() > 2) break;  // one too many is known
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

// Hands over each line that is not blank. It has `columns` columns.
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
    // Written so that NaN fails too.
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
  // The last rate holds as long as a step does on the mean.
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

}  // namespace outrider
