// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/http/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <set>
#include <sstream>
#include <utility>

#include "cloud_server/http/ledger.h"
#include "common/base/mutex.h"
#include "common/serving/ledger/ledger_counters.h"

namespace outrider {
namespace {

// From a pass on a fast GPU to an answer of half an hour.
const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1, 2.5, 5, 10, 30, 60, 300, 1800};

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

// Copies a total that is counted elsewhere.
void follow(prometheus::Counter& counter, double total) {
  if (total > counter.Value()) counter.Increment(total - counter.Value());
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

  using Totals = prometheus::Family<prometheus::Counter>;

  prometheus::Histogram& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram()
        .Name(prefixed(name))
        .Help(help)
        .Labels(labels)
        .Register(registry)
        .Add({}, kSeconds);
  }
  Totals& totals(const char* name, const char* help) {
    return prometheus::BuildCounter()
        .Name(prefixed(name))
        .Help(help)
        .Labels(labels)
        .Register(registry);
  }
  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge()
        .Name(prefixed(name))
        .Help(help)
        .Labels(labels)
        .Register(registry)
        .Add({});
  }

  const prometheus::Labels labels;
  const Prices* const prices;  // null: no prices
  prometheus::Registry registry;
  LedgerCounters ledger{registry, "outrider_tenant_", "bytes_total", labels};
  TenantLabels tenants;
  Totals& sessions = totals("tenant_sessions_total", "Sessions of each tenant");
  Mutex render_mu;  // one render() at a time

  prometheus::Gauge& running = gauge("num_requests_running", "Sessions that are open");
  prometheus::Gauge& waiting = gauge("num_requests_waiting", "Streams without a session yet");
  prometheus::Gauge& kv_usage =
      gauge("kv_cache_usage_perc", "Share of the memory for keys and values in use, 0 to 1");
  prometheus::Gauge& lookup_tokens =
      gauge("lookup_tokens", "Tokens of earlier texts that tenants' sessions may look up in");
  prometheus::Gauge& calls = gauge("grpc_calls_open", "gRPC calls that are open");
  prometheus::Gauge& connections = gauge("connections_open", "Connections of edges that are open");
  prometheus::Counter& turned_away =
      totals("connections_refused_total", "Connections closed because a limit was reached").Add({});
  prometheus::Counter& handshakes =
      totals("tls_handshakes_failed_total", "Connections whose TLS handshake failed").Add({});
  prometheus::Counter& grpc_errors =
      totals("grpc_errors_total", "Errors that gRPC logged, failed handshakes included").Add({});
  Totals& keys =
      totals("keys_refused_total",
             "Calls and requests refused for their key, or because too many wrong ones came "
             "from their address");
  prometheus::Counter& grpc_keys = keys.Add({{"front", "grpc"}});
  prometheus::Counter& openai_keys = keys.Add({{"front", "openai"}});
  prometheus::Counter& metrics_keys = keys.Add({{"front", "metrics"}});
  prometheus::Counter& log_lines_lost =
      totals("log_lines_lost_total", "Log lines that could not be written").Add({});
  prometheus::Counter& spans_exported =
      totals("trace_spans_exported_total", "Spans that the collector of traces has taken").Add({});
  prometheus::Counter& spans_dropped =
      totals("trace_spans_dropped_total",
             "Spans that found no room, or that the collector did not take")
          .Add({});
  prometheus::Counter& traceparents =
      totals("traceparents_malformed_total", "Requests whose traceparent was ignored").Add({});
  prometheus::Counter& passes =
      totals("target_passes_total", "Passes of the target that decided tokens").Add({});
  prometheus::Counter& device_passes =
      totals("device_passes_total", "The same passes, each of which may serve many sessions, once")
          .Add({});
  prometheus::Counter& rows = totals("rows_total", "Rows that the device computed").Add({});
  prometheus::Counter& prompt_rows =
      totals("prompt_rows_total", "Of these rows, the tokens of prompts").Add({});
  prometheus::Counter& pruned =
      totals("rows_pruned_total", "Rows of branches that ended in the middle of a pass").Add({});
  prometheus::Counter& device =
      totals("device_seconds_total", "Seconds that the device computed").Add({});
  prometheus::Counter& idle =
      totals("device_idle_seconds_total",
             "Seconds between passes in which a session waited for the device")
          .Add({});
  prometheus::Counter& drafting =
      totals("draft_seconds_total", "Seconds that the draft model beside the target computed")
          .Add({});
  prometheus::Counter& rejected =
      totals("sessions_refused_total", "Sessions refused because the server was full").Add({});
  prometheus::Counter& preempted =
      totals("num_preemptions_total",
             "Sessions that gave up their memory and read their text again")
          .Add({});
  prometheus::Counter& refused =
      totals("calls_refused_total", "Calls ended for a fault of the client").Add({});
  prometheus::Counter& failed =
      totals("calls_failed_total", "Calls ended for a fault of this server").Add({});

  prometheus::Counter& prompt = totals("prompt_tokens_total", "Tokens of prompts").Add({});
  prometheus::Counter& generated =
      totals("generation_tokens_total", "Tokens that the target decided").Add({});
  prometheus::Counter& queries =
      totals("prefix_cache_queries_total", "Tokens of prompts looked for among kept ones").Add({});
  prometheus::Counter& hits =
      totals("prefix_cache_hits_total", "Tokens of prompts found among kept ones").Add({});
  prometheus::Counter& drafts =
      totals("spec_decode_num_drafts_total", "Passes that checked drafted tokens").Add({});
  prometheus::Counter& drafted =
      totals("spec_decode_num_draft_tokens_total", "Drafted tokens that passes checked").Add({});
  prometheus::Counter& accepted =
      totals("spec_decode_num_accepted_tokens_total", "Drafted tokens that became text").Add({});
  prometheus::Counter& own =
      totals("server_draft_tokens_total", "Of the checked ones, those that this server drafted")
          .Add({});
  prometheus::Counter& own_accepted =
      totals("server_draft_tokens_accepted_total", "Of those, the ones that became text").Add({});
  Totals& accepted_at = totals("spec_decode_num_accepted_tokens_per_pos_total",
                               "Passes that accepted a drafted token at this position, from 0");
  Totals& finished = totals("request_success_total", "Sessions that ended, by the reason");

  prometheus::Histogram& first_token =
      histogram("time_to_first_token_seconds", "From Open to the first verdict");
  prometheus::Histogram& per_token =
      histogram("request_time_per_output_token_seconds",
                "(last verdict - first verdict) / (tokens - 1) of an answer");
  prometheus::Histogram& between =
      histogram("inter_token_latency_seconds",
                "Between two verdicts of a session, each of which brings one token or more");
  prometheus::Histogram& whole = histogram("e2e_request_latency_seconds", "From Open to the end");
  prometheus::Histogram& queued =
      histogram("request_queue_time_seconds", "Waiting while the device served others, in all");
  prometheus::Histogram& prefill =
      histogram("request_prefill_time_seconds", "Computing until the first verdict");
  prometheus::Histogram& decode =
      histogram("request_decode_time_seconds", "From the first verdict to the end");
};

ServerMetrics::ServerMetrics(const std::string& model_name, const Prices* prices)
    : parts_(std::make_unique<Parts>(model_name, prices)) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::observe(const SessionRecord& record) {
  Parts& p = *parts_;
  const Usage& usage = record.usage;
  p.prompt.Increment(static_cast<double>(usage.prompt_tokens));
  p.generated.Increment(static_cast<double>(usage.completion_tokens));
  p.queries.Increment(static_cast<double>(usage.prompt_tokens));
  p.hits.Increment(static_cast<double>(usage.cached_tokens));
  p.drafts.Increment(static_cast<double>(record.draft.rounds));
  p.drafted.Increment(static_cast<double>(record.draft.tokens));
  p.accepted.Increment(static_cast<double>(record.draft.accepted));
  p.own.Increment(static_cast<double>(record.draft.own_tokens));
  p.own_accepted.Increment(static_cast<double>(record.draft.own_accepted));
  for (std::size_t i = 0; i < record.draft.accepted_at.size(); ++i) {
    p.accepted_at.Add({{"position", std::to_string(i)}})
        .Increment(static_cast<double>(record.draft.accepted_at[i]));
  }
  p.finished.Add({{"finished_reason", name_of(record.reason)}}).Increment();
  const LedgerCounters::Labels whose = {{"tenant", p.tenants.of(record.tenant)}};
  const LedgerEntry entry = ledger_entry(record);
  p.ledger.add(entry, bill_of(p.prices, entry), whose);
  p.sessions.Add(whose).Increment();
  p.whole.Observe(to_seconds(record.lasted));
  p.queued.Observe(to_seconds(record.queued));
  if (usage.passes == 0) return;
  p.first_token.Observe(to_seconds(record.to_first_token));
  p.prefill.Observe(to_seconds(record.prefill));
  const double decoding = to_seconds(record.lasted - record.to_first_token);
  p.decode.Observe(decoding);
  if (usage.completion_tokens > 1) {
    p.per_token.Observe(decoding / static_cast<double>(usage.completion_tokens - 1));
  }
}

void ServerMetrics::observe_gap(Duration gap) {
  parts_->between.Observe(to_seconds(gap));
}

std::string ServerMetrics::render(const MetricsSnapshot& now) {
  Parts& p = *parts_;
  const MutexLock lock(p.render_mu);
  const SchedulerStats& stats = now.scheduler;
  p.running.Set(static_cast<double>(stats.sessions_open));
  p.waiting.Set(static_cast<double>(stats.streams_open - stats.sessions_open));
  p.kv_usage.Set(now.kv_bytes_bound > 0
                     ? static_cast<double>(stats.kv_bytes) / static_cast<double>(now.kv_bytes_bound)
                     : 0);
  p.lookup_tokens.Set(static_cast<double>(stats.lookup_tokens));
  p.calls.Set(static_cast<double>(now.calls_open));
  p.connections.Set(static_cast<double>(now.connections_open));
  follow(p.turned_away, static_cast<double>(now.connections_refused));
  follow(p.handshakes, static_cast<double>(now.tls_handshakes_failed));
  follow(p.grpc_errors, static_cast<double>(now.grpc_errors));
  follow(p.grpc_keys, static_cast<double>(now.grpc_keys_refused));
  follow(p.openai_keys, static_cast<double>(now.openai_keys_refused));
  follow(p.metrics_keys, static_cast<double>(now.metrics_keys_refused));
  follow(p.log_lines_lost, static_cast<double>(now.log_lines_lost));
  follow(p.spans_exported, static_cast<double>(now.traces.exported));
  follow(p.spans_dropped, static_cast<double>(now.traces.dropped));
  follow(p.traceparents, static_cast<double>(now.traces.malformed));
  follow(p.passes, static_cast<double>(stats.passes));
  follow(p.device_passes, static_cast<double>(stats.device_passes));
  follow(p.rows, static_cast<double>(stats.rows));
  follow(p.prompt_rows, static_cast<double>(stats.prompt_rows));
  follow(p.pruned, static_cast<double>(stats.pruned.rows_ended));
  follow(p.device, to_seconds(stats.compute));
  follow(p.idle, to_seconds(stats.idle));
  follow(p.drafting, to_seconds(stats.drafting));
  follow(p.rejected, static_cast<double>(stats.sessions_refused));
  follow(p.preempted, static_cast<double>(stats.preemptions));
  follow(p.refused, static_cast<double>(now.calls_refused));
  follow(p.failed, static_cast<double>(now.calls_failed));
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, p.registry.Collect());
  return std::move(text).str();
}

}  // namespace outrider
