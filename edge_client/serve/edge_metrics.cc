// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/edge_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "common/base/enum_names.h"

namespace outrider {
namespace {

const prometheus::Histogram::BucketBoundaries kAnswerSeconds = {
    0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1, 2.5, 5, 10, 30, 60, 300, 1800};

}  // namespace

struct EdgeMetrics::Parts {
  explicit Parts(const std::string& model_name) : labels{{"model_name", model_name}} {}

  prometheus::Family<prometheus::Counter>& totals(const std::string& name, const char* help) {
    return prometheus::BuildCounter()
        .Name("outrider_edge_" + name)
        .Help(help)
        .Labels(labels)
        .Register(registry);
  }
  prometheus::Gauge& gauge(const std::string& name, const char* help) {
    return prometheus::BuildGauge()
        .Name("outrider_edge_" + name)
        .Help(help)
        .Labels(labels)
        .Register(registry)
        .Add({});
  }
  prometheus::Histogram& histogram(const std::string& name, const char* help) {
    return prometheus::BuildHistogram()
        .Name("outrider_edge_" + name)
        .Help(help)
        .Labels(labels)
        .Register(registry)
        .Add({}, kAnswerSeconds);
  }

  const prometheus::Labels labels;
  prometheus::Registry registry;
  prometheus::Gauge& running = gauge("num_requests_running", "Answers in work");
  prometheus::Gauge& waiting = gauge("num_requests_waiting", "Requests that wait");
  prometheus::Family<prometheus::Counter>& finished =
      totals("request_success_total", "Answers that ended, by how");
  prometheus::Counter& prompt = totals("prompt_tokens_total", "Tokens of prompts").Add({});
  prometheus::Counter& answer = totals("generation_tokens_total", "Tokens of answers").Add({});
  prometheus::Counter& drafts =
      totals("spec_decode_num_drafts_total", "Passes that checked drafted tokens").Add({});
  prometheus::Counter& drafted =
      totals("spec_decode_num_draft_tokens_total", "Drafted tokens that were checked").Add({});
  prometheus::Counter& accepted =
      totals("spec_decode_num_accepted_tokens_total", "Drafted tokens that became text").Add({});
  prometheus::Counter& reconnects = totals("resume_total", "Streams that went on anew").Add({});
  prometheus::Family<prometheus::Gauge>& mode =
      prometheus::BuildGauge()
          .Name("outrider_edge_mode")
          .Help("1 for the mode in force: auto, online, offline")
          .Labels(labels)
          .Register(registry);
  prometheus::Counter& offline =
      totals("offline_seconds_total", "While this device's own target decided").Add({});
  prometheus::Counter& failovers =
      totals("failovers_total", "From the server to this device's own target").Add({});
  prometheus::Counter& handbacks = totals("handbacks_total", "Back to the server").Add({});
  prometheus::Family<prometheus::Counter>& bytes =
      totals("net_bytes_total", "Bytes of messages, with framing");
  prometheus::Histogram& first =
      histogram("time_to_first_token_seconds", "From the request to the first token");
  prometheus::Histogram& per_token = histogram("request_time_per_output_token_seconds",
                                               "(end - first token) / (tokens - 1) of an answer");
  prometheus::Histogram& between =
      histogram("inter_token_latency_seconds",
                "Between two arrivals of tokens, each of which brings one or more");
};

EdgeMetrics::EdgeMetrics(const std::string& model_name)
    : parts_(std::make_unique<Parts>(model_name)) {}
EdgeMetrics::~EdgeMetrics() = default;

void EdgeMetrics::observe(const AnswerReport& report) {
  Parts& p = *parts_;
  const DecodingStats& stats = report.stats;
  p.finished.Add({{"finished_reason", std::string(name_of(report.finish.ending))}}).Increment();
  p.prompt.Increment(static_cast<double>(stats.prompt_tokens));
  p.answer.Increment(static_cast<double>(report.ids.size()));
  p.drafts.Increment(static_cast<double>(stats.num_drafts));
  p.drafted.Increment(static_cast<double>(stats.num_draft_tokens));
  p.accepted.Increment(static_cast<double>(stats.num_accepted_tokens));
  p.reconnects.Increment(static_cast<double>(stats.reconnects));
  p.mode.Add({{"mode", std::string(name_of(report.mode))}}).Set(1);
  p.offline.Increment(to_seconds(report.failover.offline));
  p.failovers.Increment(static_cast<double>(report.failover.failovers));
  p.handbacks.Increment(static_cast<double>(report.failover.handbacks));
  if (report.traffic) {
    p.bytes.Add({{"direction", "up"}}).Increment(static_cast<double>(report.traffic->framed_up));
    p.bytes.Add({{"direction", "down"}})
        .Increment(static_cast<double>(report.traffic->framed_down));
  }
  for (std::size_t chunk = 1; chunk < stats.chunk_at.size(); ++chunk) {
    p.between.Observe(to_seconds(stats.chunk_at[chunk] - stats.chunk_at[chunk - 1]));
  }
  if (!stats.started || !stats.first_token || !stats.last_token) return;
  p.first.Observe(to_seconds(*stats.first_token - *stats.started));
  if (report.ids.size() > 1) {
    p.per_token.Observe(to_seconds(*stats.last_token - *stats.first_token) /
                        static_cast<double>(report.ids.size() - 1));
  }
}

std::string EdgeMetrics::render(std::size_t running, std::size_t waiting) {
  parts_->running.Set(static_cast<double>(running));
  parts_->waiting.Set(static_cast<double>(waiting));
  return prometheus::TextSerializer().Serialize(parts_->registry.Collect());
}

}  // namespace outrider
