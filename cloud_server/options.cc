// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/options.h"

#include "common/cli/choice.h"

namespace outrider {
namespace {

void add_exit_flags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--exits", flags.target.exits,
                 "Early exits: auto (those chosen in training), none, all, or layers like 3,6,9");
  app.add_option("--adapters", flags.target.adapters,
                 "Directory of the exit adapters, if not the model's");
  add_choice(app, "--server-queue", flags.server_queue,
             "Which exit report goes first: the surest (priority), or the oldest (fifo)");
  add_choice(
      app, "--exit-score", flags.exit_score,
      "Confidence of exit reports: calibrated, or the greatest probability of a token in the "
      "exit's walk (max-softmax)");
  app.add_option("--prune", flags.prune_below,
                 "End branches of a tree in the middle of a pass if an early exit gives them less "
                 "chance than this; 0: never")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--predictor", flags.target.predictor,
                 "With --prune: directory of what gives that chance, by outrider-train predictor "
                 "[the target's early exits]");
}

void add_access_flags(CLI::App& app, ServerFlags& flags) {
  app.add_flag("--insecure", flags.access.insecure,
               "Allow plaintext, and edges without a key, beyond this machine");
  app.add_option("--tls-cert", flags.access.tls.cert,
                 "Speak TLS, with the certificates in this PEM file; read again when it changes");
  app.add_option("--tls-key", flags.access.tls.key, "Its key");
  app.add_option("--tls-client-ca", flags.access.tls.client_ca,
                 "Let in only edges with a certificate of these authorities; its common name is "
                 "the tenant");
  app.add_option("--token-file", flags.access.token_file,
                 "Let in only edges with a key of this file (see: outrider-server token new NAME), "
                 "or with a certificate; quotas of both stand in it; read again on SIGHUP");
  app.add_flag("--pad-frames", flags.pad_frames,
               "Messages of one size, and as many for each pass, with every edge: their sizes tell "
               "nothing of the text, for about ten times the bytes");
  app.add_option(
         "--http-port", flags.http_port,
         "Port of /health/live, /health/ready, /version and, on this machine or with "
         "--insecure, of OpenAI's routes for clients without a draft (/v1/chat/completions, "
         "/v1/completions, /v1/models, /tokenize); 0 takes a free one; without it: none")
      ->check(CLI::Range(0, 65535));
  app.add_option("--metrics-port", flags.metrics_port,
                 "Port of /metrics for Prometheus; 0 takes a free one; without it: none")
      ->check(CLI::Range(0, 65535));
  app.add_option("--metrics-host", flags.metrics_host,
                 "Address of /metrics; beyond this machine a key of --token-file is asked for "
                 "[--host]");
}

void add_connection_flags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--max-calls-per-peer", flags.max_calls_per_peer,
                 "Calls, and connections, that one address may have open; 0: no bound, nor one of "
                 "wrong keys (behind a proxy, which has one address for all)")
      ->check(CLI::Range(0, 65536));
  app.add_option("--max-connections", flags.max_connections,
                 "Connections that edges may have open; the next is closed at once; 0: no bound")
      ->check(CLI::Range(0, 1048576));
  const auto seconds = [&](const char* name, double& value, const char* help) {
    app.add_option(name, value, help)->check(CLI::Range(0.0, 1e6));
  };
  seconds("--max-connection-age", flags.max_connection_age,
          "Seconds after which a connection is to end, give or take a tenth; 0: never");
  seconds("--max-connection-age-grace", flags.max_connection_age_grace,
          "Seconds that its answers may go on then; what is left goes on over a new connection");
  seconds("--max-connection-idle", flags.max_connection_idle,
          "Seconds without a call after which a connection ends; 0: never");
}

}  // namespace

void add_flags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--model", flags.target.model,
                 "Target model: a Hugging Face directory or a GGUF file")
      ->required();
  app.add_option("--host", flags.host, "Address to listen on; beyond loopback needs TLS and keys");
  app.add_option("--port", flags.port, "Port to listen on; 0 takes a free one")
      ->check(CLI::Range(0, 65535));
  add_access_flags(app, flags);
  app.add_option("--dtype", flags.target.dtype, "How to compute; auto: as the weights are stored")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}));
  app.add_option("--kv-dtype", flags.target.kv_dtype,
                 "Keys and values of the cpu engine; bf16: half the memory, other bits")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--cache-dir", flags.target.cache_dir,
                 "Where converted weights are kept for the next start: a folder, auto (the user's "
                 "cache), none");
  app.add_option("--device", flags.target.device, "Where to compute: cpu, cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", flags.target.threads, "Threads of the cpu engine; 0 takes all cores")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--check-tensors", flags.target.check_tensors,
               "Refuse weights that hold NaN or infinity");
  app.add_option(
      "--max-model-len", flags.target.max_model_len,
      "Most tokens of prompt and answer; a KV cache holds as many [the model's context]");
  app.add_flag("--ignore-eos", flags.target.ignore_eos,
               "Go on after the model's end-of-text token, to measure answers of one length");
  app.add_option("--max-concurrent-sessions", flags.max_concurrent_sessions,
                 "The next session is told to come back later")
      ->check(CLI::Range(1, 1024));
  add_connection_flags(app, flags);
  app.add_option("--max-draft-tokens", flags.max_draft_tokens,
                 "Undecided draft tokens that one session may have here")
      ->check(CLI::Range(64, 4096));
  app.add_option("--pace-pass-ms", flags.pace,
                 "Emulate a slower device: each pass takes MS; or ROWS:MS,ROWS:MS,..");
  app.add_option("--pace-exit-cost", flags.target.pace_exit_cost,
                 "Of --pace-pass-ms: a pass with early exits takes so many times as long")
      ->check(CLI::Range(1.0, 10.0));
  add_exit_flags(app, flags);
  app.add_option("--kv-cache-memory", flags.kv_cache_memory,
                 "Most memory of all sessions' keys and values: bytes like 500M, 12G; auto: what "
                 "this machine and its control group have left after the weights");
  app.add_option("--price-file", flags.price_file,
                 "TOML of what things cost, for the ledger: date, [api] input, cached-input, "
                 "output; [gpu] dollars-per-hour; [link] dollars-per-mb");
  app.add_option("--pass-limit", flags.pass_limit,
                 "Seconds after which a pass counts as hung: then this process ends with exit code "
                 "75, to be started anew")
      ->check(CLI::Range(0.1, 86400.0));
  app.add_option("--session-timeout", flags.session_timeout,
                 "Seconds after which a session ends whose answer does not come on")
      ->check(CLI::Range(1.0, 86400.0));
  app.add_option("--shutdown-timeout", flags.shutdown_timeout,
                 "Seconds that sessions may go on after SIGTERM")
      ->check(CLI::Range(0.0, 86400.0));
}

}  // namespace outrider
