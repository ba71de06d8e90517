// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/options.h"

#include <chrono>

#include "common/engine/model/devices/device_models.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/program.h"
#include "common/serving/cli/quantities.h"
#include "common/serving/cli/web_flags.h"
#include "common/serving/record/record_flags.h"
#include "common/serving/tools/answer_reading.h"

namespace outrider {
namespace {

constexpr char kTargetGroup[] = "Target model";
constexpr char kMoreOfTarget[] = "Target model, rarely needed";
constexpr char kListenGroup[] = "Address, TLS and keys";
constexpr char kPagesGroup[] = "HTTP: OpenAI's routes, health, metrics";
constexpr char kBoundsGroup[] = "Bounds";
constexpr char kMoreBounds[] = "Bounds, rarely needed";
constexpr char kExitsGroup[] = "Early exits, and drafts of the server's own";

constexpr std::uint32_t kMaxBatchedRows = 8192;

void add_target_flags(CLI::App& app, TargetOptions& target) {
  app.add_option("--model", target.loading.directory,
                 "Target model: a Hugging Face directory or a GGUF file")
      ->required()
      ->group(kTargetGroup);
  app.add_option("--dtype", target.loading.dtype, "How to compute; auto: as the weights are stored")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}))
      ->group(kTargetGroup);
  app.add_option("--elastic", target.loading.elastic,
                 "Level table of the model, by outrider-train elastic table: the model has smaller "
                 "levels of itself, and units in the table's order")
      ->group(kMoreOfTarget);
  app.add_option("--level", target.level,
                 "With --elastic: the level that answers all requests [requests to /v1 choose, and "
                 "edges by their --level]")
      ->group(kMoreOfTarget);
  app.add_option("--kv-dtype", target.loading.kv_dtype,
                 "Keys and values of the cpu engine; bf16: half the memory, other bits")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->group(kTargetGroup);
  app.add_option("--cache-dir", target.loading.cache_dir,
                 "Where converted weights are kept for the next start: a folder, auto (the user's "
                 "cache), none")
      ->group(kMoreOfTarget);
  add_device_flags(app, target.loading, kTargetGroup, kMoreOfTarget);
  app.add_option("--threads", target.loading.threads,
                 "Threads of the cpu engine; 0: as many as cores and control group grant")
      ->check(CLI::Range(0, 1024))
      ->group(kTargetGroup);
  app.add_flag("--check-tensors", target.loading.check_finite,
               "Refuse weights that hold NaN or infinity")
      ->group(kMoreOfTarget);
  app.add_option("--max-model-len", target.loading.max_context,
                 "Most tokens of prompt and answer; a KV cache holds as many [the model's context]")
      ->group(kTargetGroup);
  app.add_flag("--ignore-eos", target.loading.ignore_eos,
               "Go on after the model's end-of-text token, to measure answers of one length")
      ->group(kMoreOfTarget);
  target.generation_config = GenerationConfigUse::kAuto;
  add_choice(app, "--generation-config", target.generation_config,
             "Whether the model's generation_config.json samples where requests are silent, of "
             "edges too: auto, none")
      ->group(kMoreOfTarget);
  app.add_option(
         "--chat-template", target.chat_template,
         "Chat template, for edges too: chatml, llama3, qwen3 and others (a wrong name lists "
         "them), one of the model's by its name, or a Jinja file (a path with a slash, or "
         ".jinja at its end) [the model's]")
      ->group(kTargetGroup);
}

void add_exit_flags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--draft-model", flags.target.draft_model,
                 "Draft model beside the target, for clients that have no draft: a Hugging Face "
                 "directory or a GGUF file of the target's tokenizer")
      ->group(kExitsGroup);
  app.add_option(
         "--draft-threads", flags.target.draft_threads,
         "Threads of --draft-model's own, on the CPU: it drafts on while a pass runs; 0: it "
         "computes where the target does, between passes")
      ->check(CLI::Range(0, 1024))
      ->group(kMoreOfTarget);
  add_choice(app, "--draft-source", flags.draft_source,
             "What this server drafts by, for clients without a draft and beside edges, as far as "
             "it pays. model: --draft-model; lookup: what followed where this text, or one of the "
             "tenant's earlier ones, was alike; both; none [both if --draft-model, else lookup]")
      ->group(kMoreOfTarget);
  app.add_option("--exits", flags.target.exits.exits,
                 "Early exits: auto (those chosen in training), none, all, or layers like 3,6,9")
      ->group(kExitsGroup);
  app.add_option("--adapters", flags.target.exits.adapters,
                 "Directory of the exit adapters, if not the model's")
      ->group(kExitsGroup);
  app.add_option("--prune", flags.server.scheduler.prune_below,
                 "End branches of a tree in the middle of a pass if an early exit gives them less "
                 "chance than this; 0: never")
      ->check(CLI::Range(0.0, 1.0))
      ->group(kExitsGroup);
  app.add_option("--predictor", flags.target.predictor,
                 "With --prune: directory of what gives that chance, by outrider-train predictor "
                 "[the target's early exits]")
      ->group(kExitsGroup);
}

void add_access_flags(CLI::App& app, ServerFlags& flags) {
  RpcServerOptions& rpc = flags.server.rpc;
  app.add_option("--host", rpc.listen.host,
                 "Address to listen on; beyond loopback needs TLS and keys")
      ->group(kListenGroup);
  add_port(app, "--port", rpc.listen.port, "Port to listen on; 0 takes a free one")
      ->group(kListenGroup);
  app.add_flag("--insecure", flags.insecure,
               "Allow plaintext, and edges without a key, beyond this machine")
      ->group(kListenGroup);
  app.add_option("--tls-cert", rpc.tls.cert,
                 "Speak TLS, with the certificates in this PEM file; read again when it changes")
      ->group(kListenGroup);
  app.add_option("--tls-key", rpc.tls.key, "Its key")->group(kListenGroup);
  app.add_option("--tls-client-ca", rpc.tls.client_ca,
                 "Let in only edges with a certificate of these authorities; its common name is "
                 "the tenant")
      ->group(kListenGroup);
  app.add_option("--token-file", flags.server.token_file,
                 "Let in only edges with a key of this file (see: outrider-server token new NAME), "
                 "or with a certificate; quotas of both stand in it; read again when it changes")
      ->group(kListenGroup);
  app.add_flag(
         "--pad-frames", rpc.pad_frames,
         "Messages of one size, and as many for each pass, with every edge: their sizes reveal "
         "nothing of the text, for about ten times the bytes")
      ->group(kListenGroup);
}

void add_page_flags(CLI::App& app, ServerFlags& flags) {
  add_port(
      app, "--http-port", flags.http_port,
      "Port of OpenAI's routes for clients without a draft (/v1/chat/completions, /v1/responses, "
      "/v1/messages, /v1/completions, /v1/models, /tokenize), over TLS if --tls-cert, of the chat "
      "page (/), and of /health/live, /health/ready and /version; 0 takes a free one; without it: "
      "none")
      ->default_str("")
      ->group(kPagesGroup);
  add_port(app, "--metrics-port", flags.metrics_port,
           "Port of /metrics for Prometheus; 0 takes a free one; without it: none")
      ->default_str("")
      ->group(kPagesGroup);
  app.add_option("--metrics-host", flags.metrics_host,
                 "Address of /metrics; beyond this machine a key of --token-file is asked for "
                 "[--host]")
      ->group(kPagesGroup);
  app.add_option("--served-model-name", flags.server.served_model_name,
                 "The model's name for clients and edges, in /metrics and logs [its directory's]")
      ->group(kPagesGroup);
  add_traces_flag(app, flags.otlp_traces_endpoint, kPagesGroup);
  add_web_flags(app, flags.server.allowed_hosts, flags.server.allowed_origins, kPagesGroup);
  add_reading_flags(app, flags.server.reading, kPagesGroup);
  add_record_flags(app, flags.server.record, "Of each answer over HTTP", kPagesGroup);
  app.add_option("--price-file", flags.server.price_file,
                 "TOML of what things cost, for the ledger: date, [api] input, cached-input, "
                 "output; [gpu] dollars-per-hour; [link] dollars-per-mb")
      ->group(kPagesGroup);
  app.add_option("--power-file", flags.server.device_file,
                 "TOML file with the power of this machine's parts, for requests with slo.energy_j")
      ->group(std::string(kPagesGroup) + kRarelyNeeded);
}

// The tree of one session has to fit.
std::string check_batched_rows(const std::string& value) {
  const std::uint32_t least = SchedulerOptions{}.max_rows;
  std::uint32_t rows = 0;
  if (CLI::detail::lexical_cast(value, rows) && rows >= least && rows <= kMaxBatchedRows) return {};
  return value + " rows: a session's own pass has up to " + std::to_string(least) +
         ". Remedy: " + std::to_string(least) + " to " + std::to_string(kMaxBatchedRows);
}

void add_bound_flags(CLI::App& app, ServerFlags& flags) {
  SchedulerOptions& scheduler = flags.server.scheduler;
  RpcServerOptions& rpc = flags.server.rpc;
  app.add_option(
         "--max-concurrent-sessions", scheduler.max_concurrent_sessions,
         "Sessions at once; the next waits in the queue, unless it is more urgent (service_tier)")
      ->check(CLI::Range(1, 1024))
      ->group(kBoundsGroup);
  app.add_option("--max-queued-requests", scheduler.max_queued_requests,
                 "Requests that wait for a session or for memory; the next is told to come back")
      ->check(CLI::Range(0, 65536))
      ->group(kBoundsGroup);
  app.add_option("--kv-cache-memory", flags.kv_cache_memory,
                 "Most memory of all sessions' keys and values: bytes like 500M, 12G; auto: what "
                 "this machine and its control group have left after the weights")
      ->group(kBoundsGroup);
  app.add_flag_function(
         "--no-enable-prefix-caching",
         [&scheduler](std::int64_t times) { scheduler.kv.share_prefixes = times <= 0; },
         "A session does not begin with what earlier ones of its tenant have computed of the same "
         "text, nor look up in their texts")
      ->group(kMoreBounds);
  app.add_option("--max-calls-per-peer", rpc.max_calls_per_peer,
                 "Calls, and connections, that one address (of IPv6: one /64) may have open; 0: no "
                 "bound, nor one of "
                 "wrong keys (behind a proxy, which has one address for all)")
      ->check(CLI::Range(0, 65536))
      ->group(kBoundsGroup);
  app.add_option("--max-connections", rpc.max_connections,
                 "Connections that edges may have open; the next is closed at once; 0: no bound")
      ->check(CLI::Range(0, 1048576))
      ->group(kBoundsGroup);
  app.add_option("--max-draft-tokens", scheduler.max_nodes,
                 "Undecided draft tokens that one session may have here")
      ->check(CLI::Range(64, 4096))
      ->group(kMoreBounds);
  app.add_option("--max-batched-rows", scheduler.max_batched_rows,
                 "Rows of one pass, which serves all sessions that are ready")
      ->check(check_batched_rows)
      ->group(kMoreBounds);
  app.add_option("--prefill-budget", scheduler.prefill_budget,
                 "Prompt tokens that are read in one pass while other sessions await verdicts")
      ->check(CLI::Range(1, 8192))
      ->group(kMoreBounds);
  const auto seconds = [&](const char* name, Duration& value, const CLI::Range& range,
                           const char* help) {
    return add_duration(app, name, value, std::chrono::seconds(1), range, help)->group(kMoreBounds);
  };
  seconds("--max-connection-age", rpc.max_connection_age, CLI::Range(0.0, 1e6),
          "Seconds after which a connection is to end, give or take a tenth; 0: never");
  seconds("--max-connection-age-grace", rpc.max_connection_age_grace, CLI::Range(0.0, 1e6),
          "Seconds that its answers may go on then; what is left goes on over a new connection");
  seconds("--max-connection-idle", rpc.max_connection_idle, CLI::Range(0.0, 1e6),
          "Seconds without a call after which a connection ends; 0: never");
  seconds("--pass-limit", scheduler.pass_limit, CLI::Range(0.1, 86400.0),
          "Seconds after which a pass counts as hung: then this process ends with exit code 75, to "
          "be started anew");
  seconds("--queue-timeout", scheduler.queue_timeout, CLI::Range(0.0, 86400.0),
          "Seconds after which a request that waits is told to come back");
  seconds("--session-timeout", scheduler.idle_timeout, CLI::Range(1.0, 86400.0),
          "Seconds after which a session ends whose answer does not come on");
  seconds("--shutdown-timeout", flags.server.shutdown_timeout, CLI::Range(0.0, 86400.0),
          "Seconds that sessions may go on after SIGTERM")
      ->group(kBoundsGroup);
}

}  // namespace

ServerOptions standing_options() {
  ServerOptions options;
  options.scheduler.pass_limit = std::chrono::minutes(2);
  options.scheduler.max_queued_requests = 64;
  options.rpc.listen = {"127.0.0.1", 8001};
  options.rpc.max_connection_age = std::chrono::hours(1);
  options.rpc.max_connection_age_grace = std::chrono::minutes(5);
  options.rpc.max_connection_idle = std::chrono::minutes(5);
  return options;
}

void add_flags(CLI::App& app, ServerFlags& flags, const ServerParts& parts) {
  add_target_flags(app, flags.target);
  add_access_flags(app, flags);
  add_page_flags(app, flags);
  add_bound_flags(app, flags);
  add_exit_flags(app, flags);
  if (parts.add_flags) parts.add_flags(app, flags);
}

}  // namespace outrider
