// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/http/metrics.h"

#include <cstddef>
#include <set>
#include <vector>

#include "cloud_server/http/ledger.h"
#include "common/base/mutex.h"
#include "common/serving/ledger/ledger_counters.h"
#include "common/serving/telemetry/draft_counters.h"
#include "common/serving/telemetry/metric_registry.h"
#include "common/serving/tracing/trace_counters.h"

namespace outrider {
namespace {

// From a pass on a fast GPU to an answer of half an hour.
const std::vector<double> kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3,
                                      0.6,   1,      2.5,   5,    10,   30,   60,   300,  1800};

std::string prefixed(const char* name) {
  return std::string("outrider_") + name;
}

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kError:
      break;
  }
  return "error";
}

// The tenants with counters of their own. They are bounded, because certificates may bring any
// number of names. Thread rule: any thread.
class TenantLabels final {
 public:
  static constexpr std::size_t kMaxTenants = 1000;
  static constexpr const char* kOthers = "(others)";  // not valid as a tenant's name

  // The tenant's name if it is among the first, else the common label of all others.
  std::string of(const std::string& tenant) {
    const MutexLock lock(mu_);
    if (known_.contains(tenant)) return tenant;
    if (known_.size() >= kMaxTenants) return kOthers;
    known_.insert(tenant);
    return tenant;
  }

 private:
  Mutex mu_;
  std::set<std::string> known_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace

struct ServerMetrics::Parts {
  Parts(const std::string& model_name, const Prices* its_prices)
      : labels{{"model_name", model_name}}, prices(its_prices) {}

  Histogram& histogram(const char* name, const char* help) {
    return registry.histogram(prefixed(name), help, labels, kSeconds);
  }
  MetricFamily& totals(const char* name, const char* help) {
    return registry.counters(prefixed(name), help, labels);
  }
  Metric& counter(const char* name, const char* help) { return totals(name, help).with({}); }
  Metric& gauge(const char* name, const char* help) {
    return registry.gauges(prefixed(name), help, labels).with({});
  }

  const MetricLabels labels;
  const Prices* const prices;  // null: no prices
  MetricRegistry registry;
  LedgerCounters ledger{registry, "outrider_tenant_", "bytes_total", labels};
  DraftCounters drafts{registry, "outrider_", labels};
  TraceCounters traces{registry, "outrider_", labels};
  TenantLabels tenants;
  MetricFamily& sessions = totals("tenant_sessions_total", "Sessions of each tenant");
  Mutex render_mu;  // one render() at a time

  Metric& running = gauge("num_requests_running", "Sessions that are open");
  Metric& waiting = gauge("num_requests_waiting", "Streams without a session yet");
  Metric& kv_usage =
      gauge("kv_cache_usage_perc", "Share of the memory for keys and values in use, 0 to 1");
  Metric& lookup_tokens =
      gauge("lookup_tokens", "Tokens of earlier texts that tenants' sessions may look up in");
  Metric& calls = gauge("grpc_calls_open", "gRPC calls that are open");
  Metric& connections = gauge("connections_open", "Connections of edges that are open");
  Metric& turned_away =
      counter("connections_refused_total", "Connections closed because a limit was reached");
  Metric& handshakes =
      counter("tls_handshakes_failed_total", "Connections whose TLS handshake failed");
  Metric& grpc_errors =
      counter("grpc_errors_total", "Errors that gRPC logged, failed handshakes included");
  MetricFamily& keys =
      totals("keys_refused_total",
             "Calls and requests refused for their key, or because too many wrong ones came "
             "from their address");
  Metric& grpc_keys = keys.with({{"front", "grpc"}});
  Metric& openai_keys = keys.with({{"front", "openai"}});
  Metric& metrics_keys = keys.with({{"front", "metrics"}});
  Metric& log_lines_lost = counter("log_lines_lost_total", "Log lines that could not be written");
  Metric& passes = counter("target_passes_total", "Passes of the target that decided tokens");
  Metric& device_passes = counter("device_passes_total",
                                  "The same passes, each of which may serve many sessions, once");
  Metric& rows = counter("rows_total", "Rows that the device computed");
  Metric& prompt_rows = counter("prompt_rows_total", "Of these rows, the tokens of prompts");
  Metric& pruned =
      counter("rows_pruned_total", "Rows of branches that ended in the middle of a pass");
  Metric& device = counter("device_seconds_total", "Seconds that the device computed");
  Metric& idle = counter("device_idle_seconds_total",
                         "Seconds between passes in which a session waited for the device");
  Metric& drafting =
      counter("draft_seconds_total", "Seconds that the draft model beside the target computed");
  Metric& rejected =
      counter("sessions_refused_total", "Sessions refused because the server was full");
  Metric& preempted = counter("num_preemptions_total",
                              "Sessions that gave up their memory and read their text again");
  Metric& refused = counter("calls_refused_total", "Calls ended for a fault of the client");
  Metric& failed = counter("calls_failed_total", "Calls ended for a fault of this server");

  Metric& prompt = counter("prompt_tokens_total", "Tokens of prompts");
  Metric& generated = counter("generation_tokens_total", "Tokens that the target decided");
  Metric& queries =
      counter("prefix_cache_queries_total", "Tokens of prompts looked for among kept ones");
  Metric& hits = counter("prefix_cache_hits_total", "Tokens of prompts found among kept ones");
  Metric& own =
      counter("server_draft_tokens_total", "Of the checked ones, those that this server drafted");
  Metric& own_accepted =
      counter("server_draft_tokens_accepted_total", "Of those, the ones that became text");
  MetricFamily& finished = totals("request_success_total", "Sessions that ended, by the reason");

  Histogram& first_token =
      histogram("time_to_first_token_seconds", "From Open to the first verdict");
  Histogram& per_token = histogram("request_time_per_output_token_seconds",
                                   "(last verdict - first verdict) / (tokens - 1) of an answer");
  Histogram& between =
      histogram("inter_token_latency_seconds",
                "Between two verdicts of a session, each of which brings one token or more");
  Histogram& whole = histogram("e2e_request_latency_seconds", "From Open to the end");
  Histogram& queued =
      histogram("request_queue_time_seconds", "Waiting while the device served others, in all");
  Histogram& prefill =
      histogram("request_prefill_time_seconds", "Computing until the first verdict");
  Histogram& decode = histogram("request_decode_time_seconds", "From the first verdict to the end");
};

ServerMetrics::ServerMetrics(const std::string& model_name, const Prices* prices)
    : parts_(std::make_unique<Parts>(model_name, prices)) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::observe(const SessionRecord& record) {
  Parts& p = *parts_;
  const Usage& usage = record.usage;
  p.prompt.add(static_cast<double>(usage.prompt_tokens));
  p.generated.add(static_cast<double>(usage.completion_tokens));
  p.queries.add(static_cast<double>(usage.prompt_tokens));
  p.hits.add(static_cast<double>(usage.cached_tokens));
  p.drafts.add({.rounds = record.draft.rounds,
                .tokens = record.draft.tokens,
                .accepted = record.draft.accepted,
                .accepted_at = record.draft.accepted_at});
  p.own.add(static_cast<double>(record.draft.own_tokens));
  p.own_accepted.add(static_cast<double>(record.draft.own_accepted));
  p.finished.with({{"finished_reason", name_of(record.reason)}}).add();
  const MetricLabels whose = {{"tenant", p.tenants.of(record.tenant)}};
  const LedgerEntry entry = ledger_entry(record);
  p.ledger.add(entry, bill_of(p.prices, entry), whose);
  p.sessions.with(whose).add();
  p.whole.observe(to_seconds(record.lasted));
  p.queued.observe(to_seconds(record.queued));
  if (usage.passes == 0) return;
  p.first_token.observe(to_seconds(record.to_first_token));
  p.prefill.observe(to_seconds(record.prefill));
  const double decoding = to_seconds(record.lasted - record.to_first_token);
  p.decode.observe(decoding);
  if (usage.completion_tokens > 1) {
    p.per_token.observe(decoding / static_cast<double>(usage.completion_tokens - 1));
  }
}

void ServerMetrics::observe_gap(Duration gap) {
  parts_->between.observe(to_seconds(gap));
}

std::string ServerMetrics::render(const MetricsSnapshot& now) {
  Parts& p = *parts_;
  const MutexLock lock(p.render_mu);
  const SchedulerStats& stats = now.scheduler;
  p.running.set(static_cast<double>(stats.sessions_open));
  p.waiting.set(static_cast<double>(stats.streams_open - stats.sessions_open));
  p.kv_usage.set(stats.kv_bytes_bound > 0 ? static_cast<double>(stats.kv_bytes) /
                                                static_cast<double>(stats.kv_bytes_bound)
                                          : 0);
  p.lookup_tokens.set(static_cast<double>(stats.lookup_tokens));
  p.calls.set(static_cast<double>(now.calls_open));
  p.connections.set(static_cast<double>(now.connections_open));
  p.turned_away.raise_to(static_cast<double>(now.connections_refused));
  p.handshakes.raise_to(static_cast<double>(now.tls_handshakes_failed));
  p.grpc_errors.raise_to(static_cast<double>(now.grpc_errors));
  p.grpc_keys.raise_to(static_cast<double>(now.grpc_keys_refused));
  p.openai_keys.raise_to(static_cast<double>(now.openai_keys_refused));
  p.metrics_keys.raise_to(static_cast<double>(now.metrics_keys_refused));
  p.log_lines_lost.raise_to(static_cast<double>(now.log_lines_lost));
  p.traces.follow(now.traces);
  p.passes.raise_to(static_cast<double>(stats.passes));
  p.device_passes.raise_to(static_cast<double>(stats.device_passes));
  p.rows.raise_to(static_cast<double>(stats.rows));
  p.prompt_rows.raise_to(static_cast<double>(stats.prompt_rows));
  p.pruned.raise_to(static_cast<double>(stats.pruned.rows_ended));
  p.device.raise_to(to_seconds(stats.compute));
  p.idle.raise_to(to_seconds(stats.idle));
  p.drafting.raise_to(to_seconds(stats.drafting));
  p.rejected.raise_to(static_cast<double>(stats.sessions_refused));
  p.preempted.raise_to(static_cast<double>(stats.preemptions));
  p.refused.raise_to(static_cast<double>(now.calls_refused));
  p.failed.raise_to(static_cast<double>(now.calls_failed));
  return p.registry.text();
}

}  // namespace outrider
