// The results of a load: the figures of its requests, with the names and definitions of vLLM's
// serving benchmark, and what the server counted meanwhile.
//
//   TTFT  from the request's arrival to its first token
//   TPOT  (last token - first token) / (tokens - 1) of a request
//   ITL   between two pieces of a stream, each of which brings a token or more
//   E2EL  from the request's arrival to its end
//
// A request arrives when it is due. If all clients are busy then, the wait counts, so that a slow
// server is not spared the requests that it delays.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/load_plan.h"
#include "bench/stats/statistics.h"
#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"

namespace outrider {

// Tokens that came together.
struct TokenArrival {
  Duration at{0};
  std::uint64_t tokens = 0;
};

// One request. Times are since the load began.
struct LoadSample {
  ClientKind kind = ClientKind::kEdge;
  std::size_t client = 0;
  std::size_t number = 0;
  Duration due{0};
  Duration sent{0};
  Duration ended{0};
  std::uint64_t prompt_tokens = 0;
  std::uint64_t tokens = 0;
  std::vector<TokenArrival> arrivals = {};
  Status status = {};

  std::optional<double> ttft_ms() const;
  std::optional<double> tpot_ms() const;  // nothing for fewer than two tokens
  double e2el_ms() const { return to_ms(ended - due); }
};

enum class LatencyMetric : std::uint8_t { kTtft, kTpot, kE2el };

template <>
inline constexpr auto enum_names<LatencyMetric> =
    std::to_array<EnumName<LatencyMetric>>({{LatencyMetric::kTtft, "ttft"},
                                            {LatencyMetric::kTpot, "tpot"},
                                            {LatencyMetric::kE2el, "e2el"}});

// A service level objective: a request meets it with at most so many milliseconds.
struct LatencySlo {
  LatencyMetric metric = LatencyMetric::kTtft;
  double limit_ms = 0;
};

// "ttft:500". INVALID_ARGUMENT lists the metrics.
Result<LatencySlo> parse_slo(const std::string& text);

// An answered request meets an objective on a figure that it does not have.
bool meets(const LoadSample& request, std::span<const LatencySlo> slos);

// (sum x)^2 / (n * sum x^2) of what each got: 1 if all got the same, 1/n if one got everything.
// Nothing if nobody got anything.
std::optional<double> jain_index(std::span<const double> shares);

// Tokens a second while `clients` requests were decoding at once, from each one's first token to
// its last: so neither prompts nor the end of a load, when clients are done, count. Nothing if so
// many never were.
std::optional<double> full_load_tokens_per_s(std::span<const LoadSample> requests,
                                             std::size_t clients);

// The counters of a server since it started, or between two times (its page /metrics).
struct ServerCounters {
  double device_passes = 0;  // that decided tokens
  double rows = 0;
  double prompt_rows = 0;  // of these, the tokens of prompts
  double device_seconds = 0;
  double idle_seconds = 0;
  double prompt_tokens = 0;  // of sessions that have ended
  double cached_tokens = 0;  // of these, not computed
  double preemptions = 0;

  friend ServerCounters operator-(const ServerCounters& after, const ServerCounters& before);

  // The share of the time in which a session wanted the device and it stood still.
  std::optional<double> idle_share() const;
  // Rows that verified or decoded.
  double decoding_rows() const { return rows - prompt_rows; }
  std::optional<double> rows_per_pass() const;
};

// Prometheus' text. INVALID_ARGUMENT if a counter is missing: it is not an outrider-server's.
Result<ServerCounters> parse_counters(std::string_view page);

struct LoadFigures {
  std::size_t answered = 0;
  std::map<std::string, std::size_t> errors;  // by status code
  std::string first_error;                    // empty: none
  double seconds = 0;                         // from the load's beginning to its last answer
  std::uint64_t prompt_tokens = 0;
  std::uint64_t tokens = 0;
  double requests_per_s = 0;
  double tokens_per_s = 0;
  std::optional<double> full_load;  // full_load_tokens_per_s()
  double good_requests_per_s = 0;   // that meet all objectives
  double good_tokens_per_s = 0;
  double good_share = 0;
  std::optional<double> jain;  // over clients: of each one's tokens a second while it was served
  std::optional<Spread> ttft_ms, tpot_ms, itl_ms, e2el_ms, waited_ms;  // waited: for a free client
};

LoadFigures figures_of(std::span<const LoadSample> requests, std::size_t clients,
                       std::span<const LatencySlo> slos);

}  // namespace outrider
