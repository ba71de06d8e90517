// SPDX-License-Identifier: Apache-2.0
#include "bench/load/load_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "bench/report/text_table.h"

namespace outrider {
namespace {

constexpr std::size_t kWidth = 58;

// A line of that width, or longer, with the text in its middle.
std::string ruler(const std::string& text, char fill) {
  const std::size_t room = kWidth - std::min(kWidth, text.size() + 2);
  return std::string(room / 2, fill) + " " + text + " " + std::string(room - room / 2, fill) + "\n";
}

std::string figure(const std::string& name, const std::string& value) {
  return fmt::format("{:<43}{:>15}\n", name, value);
}

std::string figure(const std::string& name, std::optional<double> value, const char* format) {
  return figure(name, number_or_dash(value, format));
}

std::string server_lines(const ServerCounters& server, std::uint64_t tokens) {
  const auto share = [](double part, double whole) -> std::optional<double> {
    return whole > 0 ? std::optional(part / whole) : std::nullopt;
  };
  const auto percent = [](std::optional<double> value) {
    return value ? std::optional(100 * *value) : std::nullopt;
  };
  return figure("Device passes:", server.device_passes, "{:.0f}") +
         figure("Rows a pass, without prompts:", server.rows_per_pass(), "{:.2f}") +
         figure("Rows a token, without prompts:",
                share(server.decoding_rows(), static_cast<double>(tokens)), "{:.2f}") +
         figure("Idle between passes while wanted (%):", percent(server.idle_share()), "{:.2f}") +
         figure("Prompt tokens found in the cache (%):",
                percent(share(server.cached_tokens, server.prompt_tokens)), "{:.1f}") +
         figure("Preemptions:", server.preemptions, "{:.0f}");
}

std::string latency_lines(const LoadFigures& figures) {
  TextTable table{.heads = {"Latency (ms)", "mean", "p50", "p90", "p95", "p99"}, .rows = {}};
  const auto add = [&](const char* name, const std::optional<Spread>& spread) {
    std::vector<std::string> row = {name};
    const auto value = [&](double of_spread) { row.push_back(fmt::format("{:.2f}", of_spread)); };
    if (spread) {
      for (const double of :
           {spread->mean.value, spread->p50, spread->p90, spread->p95, spread->p99})
        value(of);
    }
    row.resize(table.heads.size(), "–");
    table.rows.push_back(std::move(row));
  };
  add("TTFT", figures.ttft_ms);
  add("TPOT", figures.tpot_ms);
  add("ITL", figures.itl_ms);
  add("E2EL", figures.e2el_ms);
  add("Wait for a client", figures.waited_ms);
  return to_plain_text(table, 1);
}

Json spread_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"count", spread->count},   {"mean", to_json(spread->mean)},
          {"std", spread->deviation}, {"p50", spread->p50},
          {"p90", spread->p90},       {"p95", spread->p95},
          {"p99", spread->p99}};
}

Json number_json(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::string load_table(const LoadReport& report) {
  const LoadFigures& f = report.figures;
  std::string text = ruler(report.title, '=');
  text += figure("Successful requests:", std::to_string(f.answered));
  for (const auto& [code, count] : f.errors) {
    text += figure("Failed with " + code + ":", std::to_string(count));
  }
  text += figure("Benchmark duration (s):", f.seconds, "{:.2f}") +
          figure("Total input tokens:", std::to_string(f.prompt_tokens)) +
          figure("Total generated tokens:", std::to_string(f.tokens)) +
          figure("Request throughput (req/s):", f.requests_per_s, "{:.2f}") +
          figure("Output token throughput (tok/s):", f.tokens_per_s, "{:.2f}") +
          figure("  while all clients decode (tok/s):", f.full_load, "{:.2f}");
  if (!report.slos.empty()) {
    text += figure("Request goodput (req/s):", f.good_requests_per_s, "{:.2f}") +
            figure("Goodput (tok/s):", f.good_tokens_per_s, "{:.2f}") +
            figure("Requests that meet all SLOs (%):", 100 * f.good_share, "{:.1f}");
  }
  text += figure("Jain's index over clients:", f.jain, "{:.3f}") +
          figure("Cores that the clients kept busy:", report.client_cores, "{:.2f}");
  if (report.greedy_tokens_per_s) {
    text += figure("The greedy tenant's (tok/s):", report.greedy_tokens_per_s, "{:.2f}");
  }
  if (report.server) text += ruler("Server", '-') + server_lines(*report.server, f.tokens);
  return text + ruler("Latency", '-') + latency_lines(f) + std::string(kWidth, '=') + "\n";
}

Json to_json(const LoadReport& report) {
  const LoadFigures& f = report.figures;
  Json json = {{"title", report.title},
               {"answered", f.answered},
               {"errors", f.errors},
               {"duration_s", f.seconds},
               {"prompt_tokens", f.prompt_tokens},
               {"tokens", f.tokens},
               {"requests_per_s", f.requests_per_s},
               {"tokens_per_s", f.tokens_per_s},
               {"full_load_tokens_per_s", number_json(f.full_load)},
               {"jain_clients", number_json(f.jain)},
               {"client_cores", report.client_cores},
               {"greedy_tokens_per_s", number_json(report.greedy_tokens_per_s)},
               {"latency_ms",
                {{"ttft", spread_json(f.ttft_ms)},
                 {"tpot", spread_json(f.tpot_ms)},
                 {"itl", spread_json(f.itl_ms)},
                 {"e2el", spread_json(f.e2el_ms)},
                 {"waited_for_client", spread_json(f.waited_ms)}}}};
  if (!report.slos.empty()) {
    Json limits = Json::object();
    for (const LatencySlo& slo : report.slos) limits[name_of(slo.metric)] = slo.limit_ms;
    json["goodput"] = {{"limits_ms", std::move(limits)},
                       {"requests_per_s", f.good_requests_per_s},
                       {"tokens_per_s", f.good_tokens_per_s},
                       {"share", f.good_share}};
  }
  if (report.server) {
    const ServerCounters& server = *report.server;
    json["server"] = {{"device_passes", server.device_passes},
                      {"rows", server.rows},
                      {"device_s", server.device_seconds},
                      {"idle_s", server.idle_seconds},
                      {"idle_share", number_json(server.idle_share())},
                      {"decoding_rows", server.decoding_rows()},
                      {"rows_per_pass", number_json(server.rows_per_pass())},
                      {"prompt_tokens", server.prompt_tokens},
                      {"cached_tokens", server.cached_tokens},
                      {"preemptions", server.preemptions}};
  }
  return json;
}

Json to_json(const LoadSample& request) {
  return {{"number", request.number},
          {"kind", name_of(request.kind)},
          {"client", request.client},
          {"due_ms", to_ms(request.due)},
          {"sent_ms", to_ms(request.sent)},
          {"ttft", number_json(request.ttft_ms())},
          {"tpot", number_json(request.tpot_ms())},
          {"e2el", request.e2el_ms()},
          {"prompt_tokens", request.prompt_tokens},
          {"tokens", request.tokens},
          {"error", request.status.ok() ? "" : request.status.to_string()}};
}

}  // namespace outrider
