// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/edge_metrics.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "common/base/enum_names.h"
#include "common/serving/ledger/ledger_counters.h"
#include "common/serving/telemetry/draft_counters.h"
#include "common/serving/telemetry/metric_registry.h"
#include "common/serving/tracing/trace_counters.h"
#include "edge_client/report/answer_ledger.h"

namespace outrider {
namespace {

const std::vector<double> kAnswerSeconds = {0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6,
                                            1,     2.5,  5,    10,   30,   60,   300, 1800};

const std::vector<double> kRoundTripSeconds = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                               0.2,    0.5,   1,     2,     5,    15,   80};

const std::vector<double> kLayers = {1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96};

constexpr std::string_view kModes[] = {"online", "degraded", "offline"};

// Which of them it is; none of them before anything is known.
std::string_view mode_now(const LinkWatch::View& view) {
  return view.device_decides ? "offline" : name_of(view.link);
}

// In a registry of their own: zones, rails and the mode are those of this moment.
std::string text_of(const JetsonFigures& device) {
  MetricRegistry registry;
  const auto gauge = [&](const char* name, const char* help) -> MetricFamily& {
    return registry.gauges(std::string("outrider_edge_device_") + name, help);
  };
  if (!device.power_mode.empty()) {
    gauge("power_mode", "1 for the power mode of nvpmodel")
        .with({{"mode", device.power_mode}})
        .set(1);
  }
  auto& celsius = gauge("temperature_celsius", "Temperature of a thermal zone");
  for (const auto& [zone, value] : device.celsius) celsius.with({{"zone", zone}}).set(value);
  auto& watts = gauge("power_watts", "Power of a rail of the whole board");
  for (const auto& [rail, value] : device.watts) watts.with({{"rail", rail}}).set(value);
  if (device.gpu_load)
    gauge("gpu_load_ratio", "Busy share of the GPU, 0 to 1").with({}).set(*device.gpu_load);
  gauge("throttled", "Cooling devices that hold clocks back now")
      .with({})
      .set(static_cast<double>(device.throttled.size()));
  if (device.over_current_events) {
    gauge("over_current_events",
          "Times that too much current slowed the clocks since the board's start")
        .with({})
        .set(static_cast<double>(*device.over_current_events));
  }
  return registry.text();
}

}  // namespace

struct EdgeMetrics::Parts {
  explicit Parts(const std::string& model_name) : labels{{"model_name", model_name}} {}

  MetricFamily& totals(const std::string& name, const char* help) {
    return registry.counters("outrider_edge_" + name, help, labels);
  }
  Metric& counter(const std::string& name, const char* help) { return totals(name, help).with({}); }
  Metric& gauge(const std::string& name, const char* help) {
    return registry.gauges("outrider_edge_" + name, help, labels).with({});
  }
  Histogram& histogram(const std::string& name, const char* help,
                       const std::vector<double>& buckets = kAnswerSeconds) {
    return registry.histogram("outrider_edge_" + name, help, labels, buckets);
  }

  const MetricLabels labels;
  MetricRegistry registry;
  LedgerCounters ledger{registry, "outrider_edge_", "net_bytes_total", labels};
  DraftCounters drafts{registry, "outrider_edge_", labels};
  TraceCounters traces{registry, "outrider_edge_", labels};
  Metric& running = gauge("num_requests_running", "Answers in work");
  Metric& waiting = gauge("num_requests_waiting", "Requests that wait");
  MetricFamily& finished = totals("request_success_total", "Answers that ended, by how");
  Metric& prompt = counter("prompt_tokens_total", "Tokens of prompts");
  Metric& answer = counter("generation_tokens_total", "Tokens of answers");
  Metric& rollback =
      counter("rollback_tokens_total", "Drafted tokens that were sent and did not become text");
  MetricFamily& resumes =
      totals("resume_total", "Lost streams: those that went on anew, and those that did not");
  Metric& resumed = resumes.with({{"result", "success"}});
  Metric& not_resumed = resumes.with({{"result", "failure"}});
  MetricFamily& mode =
      registry.gauges("outrider_edge_mode",
                      "1 for who decides: the server (online), the server when its lost stream is "
                      "back (degraded), this device's target, or nobody (offline)",
                      labels);
  MetricFamily& kv_usage =
      registry.gauges("outrider_edge_kv_cache_usage_perc",
                      "Share of this device's memory for keys and values in use, 0 to 1", labels);
  Metric& offline = counter("offline_seconds_total", "While this device's own target decided");
  Metric& failovers = counter("failovers_total", "From the server to this device's own target");
  Metric& failbacks = counter("failbacks_total", "Back to the server");
  Histogram& first =
      histogram("time_to_first_token_seconds", "From the request to the first token");
  Histogram& per_token = histogram("request_time_per_output_token_seconds",
                                   "(end - first token) / (tokens - 1) of an answer");
  Histogram& between =
      histogram("inter_token_latency_seconds",
                "Between two arrivals of tokens, each of which brings one or more");
  Histogram& round_trips = histogram(
      "net_rtt_seconds", "From a request to the server's pass, less queueing", kRoundTripSeconds);
  Histogram& exits = histogram(
      "exit_layer", "Layers after which an exit named what came true and was drafted", kLayers);

  void observe_draft(const DecodingStats& stats);
  void observe_times(const AnswerRecord& record);
};

void EdgeMetrics::Parts::observe_draft(const DecodingStats& stats) {
  drafts.add({.rounds = stats.num_drafts,
              .tokens = stats.num_draft_tokens,
              .accepted = stats.num_accepted_tokens,
              .accepted_at = stats.accepted_per_position});
  rollback.add(static_cast<double>(stats.num_draft_tokens - stats.num_accepted_tokens +
                                   stats.predraft.ahead_dead));
  const PredraftStats& predraft = stats.predraft;
  const std::size_t known = std::min(predraft.hits_by_exit.size(), predraft.exit_layers.size());
  for (std::size_t exit = 0; exit < known; ++exit) {
    for (std::uint64_t hit = 0; hit < predraft.hits_by_exit[exit]; ++hit) {
      exits.observe(predraft.exit_layers[exit]);
    }
  }
}

void EdgeMetrics::Parts::observe_times(const AnswerRecord& record) {
  const DecodingStats& stats = record.stats;
  for (std::size_t chunk = 1; chunk < stats.chunk_at.size(); ++chunk) {
    between.observe(to_seconds(stats.chunk_at[chunk] - stats.chunk_at[chunk - 1]));
  }
  // A target on this device has no link to take time on.
  if (record.traffic) {
    for (const Duration trip : stats.round_trips) round_trips.observe(to_seconds(trip));
  }
  if (!stats.ttft_ms || !stats.decode_ms) return;
  first.observe(*stats.ttft_ms / 1e3);
  if (record.ids.size() > 1) {
    per_token.observe(*stats.decode_ms / 1e3 / static_cast<double>(record.ids.size() - 1));
  }
}

EdgeMetrics::EdgeMetrics(const std::string& model_name)
    : parts_(std::make_unique<Parts>(model_name)) {}
EdgeMetrics::~EdgeMetrics() = default;

void EdgeMetrics::rename(const std::string& model_name) {
  const MutexLock lock(mu_);
  if (counted_ || model_name.empty() || parts_->labels.at("model_name") == model_name) return;
  parts_ = std::make_unique<Parts>(model_name);
}

void EdgeMetrics::observe(const AnswerReport& report) {
  const MutexLock lock(mu_);
  counted_ = true;
  Parts& p = *parts_;
  const AnswerRecord& record = report.record;
  const DecodingStats& stats = record.stats;
  p.finished.with({{"finished_reason", std::string(name_of(report.finish.ending))}}).add();
  p.prompt.add(static_cast<double>(stats.prompt_tokens));
  p.answer.add(static_cast<double>(record.ids.size()));
  p.resumed.add(static_cast<double>(stats.reconnects));
  if (report.finish.ending == Ending::kLinkLost) p.not_resumed.add();
  p.offline.add(record.failover.offline_seconds);
  p.failovers.add(static_cast<double>(record.failover.failovers));
  p.failbacks.add(static_cast<double>(record.failover.failbacks));
  p.ledger.add(ledger_entry(record), record.bill);
  p.observe_draft(stats);
  p.observe_times(record);
}

std::string EdgeMetrics::render(const Now& now) {
  const MutexLock lock(mu_);
  parts_->running.set(static_cast<double>(now.running));
  parts_->waiting.set(static_cast<double>(now.waiting));
  for (const std::string_view mode : kModes) {
    parts_->mode.with({{"mode", std::string(mode)}}).set(mode == mode_now(now.link) ? 1 : 0);
  }
  if (now.draft_kv) parts_->kv_usage.with({{"cache", "draft"}}).set(*now.draft_kv);
  if (now.target_kv) parts_->kv_usage.with({{"cache", "target"}}).set(*now.target_kv);
  parts_->traces.follow(now.traces);
  return parts_->registry.text() + (now.device ? text_of(*now.device) : "");
}

}  // namespace outrider
