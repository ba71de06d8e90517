// SPDX-License-Identifier: Apache-2.0
#include "bench/load/load_figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace outrider {

std::optional<double> LoadSample::ttft_ms() const {
  if (arrivals.empty()) return std::nullopt;
  return to_ms(arrivals.front().at - due);
}

std::optional<double> LoadSample::tpot_ms() const {
  if (tokens < 2 || arrivals.empty()) return std::nullopt;
  return to_ms(arrivals.back().at - arrivals.front().at) / static_cast<double>(tokens - 1);
}

Result<LatencySlo> parse_slo(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto metric = parse_name<LatencyMetric>(text.substr(0, colon));
  if (!metric) {
    std::string names;
    for (const std::string& name : all_names<LatencyMetric>()) {
      names += (names.empty() ? "" : ", ") + name;
    }
    return invalid_argument(printable(text) + ": the metric is none of " + names);
  }
  double limit = 0;
  if (colon != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, limit);
    if (error != std::errc() || rest != end || !std::isfinite(limit)) limit = 0;
  }
  if (limit > 0) return LatencySlo{*metric, limit};
  return invalid_argument(printable(text) + ": expected METRIC:MILLISECONDS, such as ttft:500");
}

bool meets(const LoadSample& request, std::span<const LatencySlo> slos) {
  const auto value = [&](LatencyMetric metric) -> double {
    switch (metric) {
      case LatencyMetric::kTtft:
        return request.ttft_ms().value_or(0);
      case LatencyMetric::kTpot:
        return request.tpot_ms().value_or(0);
      case LatencyMetric::kE2el:
        break;
    }
    return request.e2el_ms();
  };
  return request.status.ok() && std::ranges::all_of(slos, [&](const LatencySlo& slo) {
           return value(slo.metric) <= slo.limit_ms;
         });
}

std::optional<double> jain_index(std::span<const double> shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  if (squares <= 0) return std::nullopt;
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

std::optional<double> full_load_tokens_per_s(std::span<const LoadSample> requests,
                                             std::size_t clients) {
  std::map<Duration, std::ptrdiff_t> changes;  // of how many are decoding
  for (const LoadSample& request : requests) {
    if (request.arrivals.size() < 2) continue;
    ++changes[request.arrivals.front().at];
    --changes[request.arrivals.back().at];
  }
  std::vector<std::pair<Duration, Duration>> full;  // (from, to], in order
  std::ptrdiff_t decoding = 0;
  double seconds = 0;
  for (auto at = changes.begin(); at != changes.end(); ++at) {
    decoding += at->second;
    const auto next = std::next(at);
    if (decoding < static_cast<std::ptrdiff_t>(clients) || next == changes.end()) continue;
    full.emplace_back(at->first, next->first);
    seconds += to_seconds(next->first - at->first);
  }
  if (seconds <= 0) return std::nullopt;
  std::uint64_t tokens = 0;
  for (const LoadSample& request : requests) {
    for (const TokenArrival& arrival : request.arrivals) {
      // The last interval that begins before the arrival.
      const auto after =
          std::ranges::lower_bound(full, arrival.at, {}, &decltype(full)::value_type::first);
      if (after != full.begin() && arrival.at <= std::prev(after)->second) tokens += arrival.tokens;
    }
  }
  return static_cast<double>(tokens) / seconds;
}

// --- what the server counted --------------------------------------------------------------------

ServerCounters operator-(const ServerCounters& after, const ServerCounters& before) {
  return {.device_passes = after.device_passes - before.device_passes,
          .rows = after.rows - before.rows,
          .prompt_rows = after.prompt_rows - before.prompt_rows,
          .device_seconds = after.device_seconds - before.device_seconds,
          .idle_seconds = after.idle_seconds - before.idle_seconds,
          .prompt_tokens = after.prompt_tokens - before.prompt_tokens,
          .cached_tokens = after.cached_tokens - before.cached_tokens,
          .preemptions = after.preemptions - before.preemptions};
}

std::optional<double> ServerCounters::idle_share() const {
  const double wanted = device_seconds + idle_seconds;
  return wanted > 0 ? std::optional(idle_seconds / wanted) : std::nullopt;
}

std::optional<double> ServerCounters::rows_per_pass() const {
  return device_passes > 0 ? std::optional(decoding_rows() / device_passes) : std::nullopt;
}

Result<ServerCounters> parse_counters(std::string_view page) {
  const auto find = [&](std::string_view name, double& value) -> Status {
    const std::string begin = "\noutrider_" + std::string(name) + "{";
    const std::size_t line = page.find(begin);
    if (line != std::string_view::npos) {
      // A label may hold anything but a line break; the value is the last word.
      const std::string_view text = page.substr(line + 1, page.find('\n', line + 1) - line - 1);
      const char* const last = text.data() + text.rfind(' ') + 1;
      const auto [rest, error] = std::from_chars(last, text.data() + text.size(), value);
      if (error == std::errc() && std::isfinite(value)) return {};
    }
    return invalid_argument("the page of metrics has no outrider_" + std::string(name) +
                            ". Remedy: --metrics-url of an outrider-server of this version");
  };
  ServerCounters counters;
  for (const auto& [name, value] :
       {std::pair<const char*, double*>{"device_passes_total", &counters.device_passes},
        {"rows_total", &counters.rows},
        {"prompt_rows_total", &counters.prompt_rows},
        {"device_seconds_total", &counters.device_seconds},
        {"device_idle_seconds_total", &counters.idle_seconds},
        {"prefix_cache_queries_total", &counters.prompt_tokens},
        {"prefix_cache_hits_total", &counters.cached_tokens},
        {"num_preemptions_total", &counters.preemptions}}) {
    OUTRIDER_RETURN_IF_ERROR(find(name, *value));
  }
  return counters;
}

// --- sums ---------------------------------------------------------------------------------------

namespace {

// Tokens a second of each client while it had a request.
std::vector<double> rates_of_clients(std::span<const LoadSample> requests) {
  std::map<std::pair<ClientKind, std::size_t>, std::pair<double, double>> served;
  for (const LoadSample& request : requests) {
    auto& [tokens, seconds] = served[{request.kind, request.client}];
    tokens += static_cast<double>(request.tokens);
    seconds += to_seconds(request.ended - request.sent);
  }
  std::vector<double> rates;
  for (const auto& [client, sums] : served) {
    rates.push_back(sums.second > 0 ? sums.first / sums.second : 0);
  }
  return rates;
}

struct Latencies {
  std::vector<double> ttft, tpot, itl, e2el, waited;

  void add(const LoadSample& request) {
    if (const auto ms = request.ttft_ms()) ttft.push_back(*ms);
    if (const auto ms = request.tpot_ms()) tpot.push_back(*ms);
    e2el.push_back(request.e2el_ms());
    waited.push_back(to_ms(request.sent - request.due));
    for (std::size_t i = 1; i < request.arrivals.size(); ++i) {
      itl.push_back(to_ms(request.arrivals[i].at - request.arrivals[i - 1].at));
    }
  }
};

}  // namespace

LoadFigures figures_of(std::span<const LoadSample> requests, std::size_t clients,
                       std::span<const LatencySlo> slos) {
  LoadFigures figures;
  Latencies latencies;
  std::size_t good = 0;
  std::uint64_t good_tokens = 0;
  for (const LoadSample& request : requests) {
    figures.seconds = std::max(figures.seconds, to_seconds(request.ended));
    if (!request.status.ok()) {
      ++figures.errors[std::string(to_string(request.status.code()))];
      if (figures.first_error.empty()) figures.first_error = request.status.message();
      continue;
    }
    ++figures.answered;
    figures.prompt_tokens += request.prompt_tokens;
    figures.tokens += request.tokens;
    latencies.add(request);
    if (!meets(request, slos)) continue;
    ++good;
    good_tokens += request.tokens;
  }
  const auto per_second = [&](double count) {
    return figures.seconds > 0 ? count / figures.seconds : 0;
  };
  figures.requests_per_s = per_second(static_cast<double>(figures.answered));
  figures.tokens_per_s = per_second(static_cast<double>(figures.tokens));
  figures.good_requests_per_s = per_second(static_cast<double>(good));
  figures.good_tokens_per_s = per_second(static_cast<double>(good_tokens));
  if (!requests.empty()) {
    figures.good_share = static_cast<double>(good) / static_cast<double>(requests.size());
  }
  figures.full_load = full_load_tokens_per_s(requests, clients);
  figures.jain = jain_index(rates_of_clients(requests));
  figures.ttft_ms = spread_of(latencies.ttft);
  figures.tpot_ms = spread_of(latencies.tpot);
  figures.itl_ms = spread_of(latencies.itl);
  figures.e2el_ms = spread_of(latencies.e2el);
  figures.waited_ms = spread_of(latencies.waited);
  return figures;
}

}  // namespace outrider
