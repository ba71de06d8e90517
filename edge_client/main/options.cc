// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/options.h"

#include <limits>
#include <string>

#include "common/base/address.h"
#include "common/engine/model/devices/device_models.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/program.h"
#include "common/serving/cli/quantities.h"
#include "common/serving/cli/web_flags.h"
#include "common/serving/record/record_flags.h"
#include "common/serving/tools/answer_reading.h"
#include "edge_client/main/sampling_flags.h"

namespace outrider {
namespace {

constexpr char kModelGroup[] = "Models";
constexpr char kDraftingGroup[] = "Drafting, rarely needed";
constexpr char kAnswerGroup[] = "The answer";
constexpr char kTargetGroup[] = "Target on this device";
constexpr char kPruningGroup[] = "Target on this device, rarely needed";
constexpr char kFailoverGroup[] = "Between the server's target and this device's";
constexpr char kSwitchingGroup[] = "Between the server's target and this device's, rarely needed";
constexpr char kOutputGroup[] = "Output";
constexpr char kLinkGroup[] = "Link";
constexpr char kOverLinkGroup[] = "Link, rarely needed";

void add_draft_source_flags(CLI::App& command, GenerationConfig& o) {
  add_choice(command, "--draft-source", o.draft_source,
             "Where drafted tokens come from. model: --model; lookup: what followed where prompt, "
             "answer or earlier answers were alike, without a model; both; none [model if --model, "
             "where it shares its cores with --target both, or lookup if it is slow; else lookup]")
      ->group(kModelGroup);
  add_choice(command, "--draft-at", o.draft_at,
             "Who drafts where a server decides. auto: this device and the server, each as far as "
             "it pays; edge: only this device; server: only the server [auto]")
      ->group(kDraftingGroup);
  command
      .add_option("--lookup-corpus", o.lookup_corpus,
                  "Texts that look-up drafts from as well: a file or a folder of UTF-8 text")
      ->group(kDraftingGroup);
}

void add_model_flags(CLI::App& command, AnswerOptions& options, const EdgeParts& parts) {
  GenerationConfig& o = options.generation;
  SpeculationOptions& speculated = o.answer.speculation;
  command.add_option("-m,--model", o.model, "Draft model: a Hugging Face directory or a GGUF file")
      ->group(kModelGroup);
  command
      .add_option("--tokenizer", o.tokenizer,
                  "Its directory or GGUF file [that of a target here, or else the draft's]")
      ->group(kModelGroup);
  add_draft_source_flags(command, o);
  add_choice(command, "--strategy", speculated.strategy, parts.strategies,
             "mirror: draft ahead of the verdicts and send it too; fsd: draft ahead where "
             "early exits point; sd: draft after each verdict; ar: no draft [mirror]")
      ->group(kModelGroup);
  command
      .add_option("--spec-draft-n-max", speculated.gamma,
                  "Tokens drafted in a round (γ); mirror: at most so many, except with "
                  "--optimize cost [4, mirror 8]")
      ->check(CLI::Range(1, 64))
      ->group(kModelGroup);
  command.add_option("--draft-branches", speculated.branches, "sd, fsd: chains drafted in a round")
      ->check(CLI::Range(1, 8))
      ->group(kDraftingGroup);
  command
      .add_option("--fan-out", speculated.fan_out,
                  "mirror: next tokens considered at each position")
      ->check(CLI::Range(1, 16))
      ->group(kDraftingGroup);
  command
      .add_option("--predraft-workers", o.drafter.workers,
                  "fsd, mirror: hypotheses that one pass of the draft serves")
      ->check(CLI::Range(1, 64))
      ->group(kDraftingGroup);
  add_choice(command, "--optimize", speculated.optimize,
             "mirror: latency: the least time per token; cost: the fewest target passes; "
             "balanced")
      ->group(kModelGroup);
  command
      .add_option("--dtype", o.loading.dtype,
                  "What models on this device compute in; auto: as stored")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}))
      ->group(kModelGroup);
  command
      .add_option("--kv-dtype", o.loading.kv_dtype,
                  "Keys and values; bf16: half the memory, other bits")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->group(kDraftingGroup);
  command
      .add_option("--cache-dir", o.loading.cache_dir,
                  "Where converted weights are kept for the next start: a folder, auto (the user's "
                  "cache), none")
      ->group(kDraftingGroup);
  command
      .add_option(
          "--state-dir", o.state_dir,
          "Directory for learned link and acceptance statistics, with which the next answer "
          "begins: a folder, auto (the user's state), none")
      ->group(kDraftingGroup);
  add_device_flags(command, o.loading, kDraftingGroup, kDraftingGroup);
  command.add_option("--draft-device", o.draft_device, "Where the draft computes [as --device]")
      ->check(CLI::IsMember(kDevices))
      ->group(kDraftingGroup);
  command.add_option("--threads", o.loading.threads, "Compute threads; 0: all that are granted")
      ->check(CLI::Range(0, 1024))
      ->group(kModelGroup);
}

void add_tree_flags(CLI::App& command, AnswerOptions& options, const EdgeParts& parts) {
  SpeculationOptions& speculated = options.generation.answer.speculation;
  add_choice(command, "--tree", options.tree, parts.trees,
             "sd: what a round is: chain; llmcad, edgellm, lever: the trees of those papers; "
             "outrider: ours [outrider from a pack without a server, else chain]")
      ->group(kModelGroup);
  command
      .add_option("--tree-size", speculated.tree.size,
                  "Most nodes of a tree; 0: the policy's own bound. The verifier's bound holds too")
      ->check(CLI::Range(0, 512))
      ->group(kDraftingGroup);
  command
      .add_flag("--tree-exits", speculated.tree.exits,
                "--tree outrider: take the target's early exits as evidence for what is drafted "
                "while a pass is under way")
      ->group(kDraftingGroup);
  command
      .add_option("--provisional", speculated.provisional,
                  "sd: draft on while a verdict is awaited, true or false [as the tree's paper "
                  "does]")
      ->group(kDraftingGroup);
}

void add_target_flags(CLI::App& command, AnswerOptions& options) {
  GenerationConfig& generation = options.generation;
  CLI::Option* const flags[] = {
      command.add_option("--target", generation.target,
                         "Target to run here, instead of a server's or, with --server, when its "
                         "link is lost: a directory, a GGUF file, or a pack"),
      command
          .add_option("--memory-budget", generation.flash.memory_budget,
                      "Of a pack: most memory for everything, the GPU's too, as 2GiB; layers that "
                      "do not fit are streamed from the flash in each pass [no bound]")
          ->transform(CLI::AsSizeValue(true))
          ->default_str(""),
      command
          .add_option("--prune", generation.prune_below,
                      "With --target: end branches of a tree in the middle of a pass if an early "
                      "exit gives them less chance than this; 0: never")
          ->check(CLI::Range(0.0, 1.0)),
      command.add_option("--predictor", generation.predictor,
                         "With --prune: directory of what gives that chance, by outrider-train "
                         "predictor [the pack's own, else the target's early exits]")};
  for (CLI::Option* flag : flags) flag->group(kTargetGroup);
  command.get_option("--predictor")->group(kPruningGroup);
}

void add_level_flags(CLI::App& command, AnswerOptions& options) {
  GenerationConfig& generation = options.generation;
  LevelWish& wish = generation.answer.wish;
  CLI::Option* const flags[] = {
      command.add_option("--elastic", generation.elastic,
                         "Level table of --target, by outrider-train elastic table: the target has "
                         "smaller levels of itself; a pack has its levels without"),
      command.add_option(
          "--level", wish.level,
          "The level that answers, by its name: this device's, which is all that is "
          "read of a pack, and the server's; 100,12:60: level 100, and level 60 from "
          "token 12 on; auto: the largest that keeps --slo [auto]"),
      command.add_option("--draft-level", generation.draft_level,
                         "A level that drafts for larger ones, with keys and values of its own"),
      command
          .add_option(
              "--slo", options.slo,
              "What an answer may take, as time_ms=800 (all of it), ttft_ms=300 (to the "
              "first token), tpot_ms=50 (each later one), or ttft_share=0.6, tpot_share=0.8 "
              "(of the full model's times), energy_j=5 (joules, by "
              "--power-file); several with commas; beside them min_quality=0.9, the "
              "least share of the full model's score at the table's task [any time]")
          ->delimiter(',')
          ->default_str(""),
      command.add_flag("--slo-strict", wish.slo.strict,
                       "Refuse what no level can keep, instead of answering as fast as can be"),
      command.add_flag("--slo-unverified", wish.slo.unverified,
                       "By time_ms of --slo, give the answer as the draft expects it, and then the "
                       "target's own, which confirms or corrects it; needs no --elastic")};
  for (CLI::Option* flag : flags) flag->group(kPruningGroup);
}

// "time_ms=800".
Status read_slo(const std::string& text, Slo& slo) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  std::optional<double>* const place = find_objective(slo, key);
  double value = 0;
  if (place == nullptr || equals == std::string::npos ||
      !CLI::detail::lexical_cast(text.substr(equals + 1), value)) {
    return invalid_argument("--slo " + printable(text) + ": must be " + kSloNames +
                            ", as time_ms=800");
  }
  *place = value;
  return {};
}

void add_failover_flags(CLI::App& command, AnswerOptions& options) {
  GenerationConfig& generation = options.generation;
  FailoverOptions& failover = generation.failover;
  constexpr Duration kSecond = std::chrono::seconds(1);
  constexpr Duration kMillisecond = std::chrono::milliseconds(1);
  CLI::Option* const mode = add_choice(
      command, "--mode", generation.mode,
      "Who decides: auto: the server, and --target while the link is lost; online; offline "
      "[auto if both are named]");
  mode->group(kFailoverGroup);
  command.add_flag("--offline", options.offline, "The same as --mode offline")
      ->excludes(mode)
      ->group(kFailoverGroup);
  command
      .add_option("--offline-target", generation.offline_target,
                  "As --target, but it may be another model than the server's: then the text "
                  "changes where it takes over, which is said")
      ->group(kSwitchingGroup);
  command
      .add_flag("--strict-target", failover.strict_target,
                "Fail over only between targets that give the same bits")
      ->group(kSwitchingGroup);
  command
      .add_option("--standby-lag", failover.standby_lag,
                  "While online, keep --target's keys and values at most so many tokens behind, "
                  "or, where it reads more slowly than the server writes, as near as it can; 0: it "
                  "reads the text when it takes over")
      ->check(CLI::Range(0, 1'000'000))
      ->group(kSwitchingGroup);
  add_duration(command, "--failover-after", failover.link.first_patience, kSecond,
               CLI::Range(0.01, 3600.0),
               "Seconds of silence before a server's first verdict that mean a lost link; later it "
               "is four times the usual gap between its messages")
      ->group(kSwitchingGroup);
  add_duration(command, "--failback-after", failover.failback_after, kSecond,
               CLI::Range(0.0, 3600.0),
               "Seconds that the link must be good before the server decides again; more where "
               "going back was not worth it")
      ->group(kSwitchingGroup);
  command
      .add_option(
          "--min-rate", failover.link.min_rate,
          "Tokens per second below which the link counts as lost, as it does below 0.8 of what "
          "--target brings here")
      ->check(CLI::Range(0.0, 1e9))
      ->group(kSwitchingGroup);
  add_duration(command, "--max-rtt", failover.link.max_round_trip, kMillisecond,
               CLI::Range(0.0, 3.6e6),
               "Milliseconds of a round trip above which the link counts as lost; 0: any")
      ->group(kSwitchingGroup);
  add_megabytes(command, "--metered-limit", generation.metered_limit, CLI::Range(0.0, 1e9),
                "Megabytes to and from the server after which --target decides alone; 0: no limit")
      ->group(kFailoverGroup);
}

void add_link_flags(CLI::App& command, AnswerOptions& options) {
  GenerationConfig& generation = options.generation;
  AnswerConfig& answer = generation.answer;
  command
      .add_option("-s,--server", generation.server,
                  std::string("HOST:PORT of outrider-server [") + kDefaultServer + "]")
      ->group(kLinkGroup);
  add_choice(
      command, "--server-api", generation.server_api,
      "What --server is: outrider; or a server that people already run, for whose model this "
      "edge drafts, at --temp 0 and without Outrider's bits: vllm; llama-cpp, "
      "llama-cpp-python's")
      ->group(kOverLinkGroup);
  command
      .add_option("--server-model", generation.server_model,
                  "With --server-api: the model's name there [the first that it lists]")
      ->group(kOverLinkGroup);
  command
      .add_option("--tls-ca", generation.remote.tls_ca,
                  "Use TLS, and trust the certificate authorities in this PEM file; system: those "
                  "that this machine trusts")
      ->group(kLinkGroup);
  command
      .add_option("--tls-cert", generation.remote.tls_cert,
                  "This edge's certificate, if the server asks")
      ->group(kLinkGroup);
  command.add_option("--tls-key", generation.remote.tls_key, "Its key")->group(kLinkGroup);
  command
      .add_option("--token-file", generation.token_file,
                  "File with the key that the server's operator gave to this edge")
      ->group(kLinkGroup);
  add_choice(command, "--service-tier", answer.text.service_tier,
             "How urgent answers are on a busy server: priority (a right of the key), default, or "
             "flex, after all others")
      ->group(kOverLinkGroup);
  command
      .add_flag(
          "--pad-frames", generation.remote.pad_frames,
          "Messages of one size, and as many for each pass: their sizes reveal nothing of the "
          "text, for about ten times the bytes")
      ->group(kOverLinkGroup);
  add_duration(command, "--reconnect-timeout", answer.reconnect.timeout, std::chrono::seconds(1),
               CLI::Range(0.0, 86400.0),
               "Seconds to retry a lost server before the answer ends as it is")
      ->group(kLinkGroup);
  command
      .add_flag("--accept-other-arithmetic", answer.reconnect.accept_other_arithmetic,
                "Go on with a server that computes in another way when the first is lost; the text "
                "may then differ from there on, which is said")
      ->group(kOverLinkGroup);
  command
      .add_option("--uplink-budget", answer.speculation.uplink_budget,
                  "mirror: most bytes per second sent before a verdict; 0: what the measured link "
                  "carries")
      ->check(CLI::Range(0.0, 1e12))
      ->group(kOverLinkGroup);
  command
      .add_flag("--insecure", options.insecure, "Allow plaintext to a server on another machine")
      ->group(kLinkGroup);
}

// INVALID_ARGUMENT unless TLS is whole, and on where the link leaves this machine or --insecure is
// given.
Status check_link(const GenerationConfig& config, const AnswerOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Address server, parse_address(server_of(config)));
  const RemoteOptions& remote = config.remote;
  if (remote.tls_ca.empty() && (!remote.tls_cert.empty() || !remote.tls_key.empty())) {
    return invalid_argument("--tls-cert and --tls-key need --tls-ca, which turns TLS on");
  }
  if (remote.tls_cert.empty() != remote.tls_key.empty()) {
    return invalid_argument("--tls-cert and --tls-key belong together; one of them is missing");
  }
  if (remote.tls_ca.empty() && !is_loopback(server.host) && !options.insecure) {
    return invalid_argument("--server " + server_of(config) +
                            ": prompts would cross the network in plaintext; speak TLS "
                            "(--tls-ca), use a tunnel to 127.0.0.1, or allow it with --insecure");
  }
  return {};
}

}  // namespace

void add_answer_flags(CLI::App& command, AnswerOptions& options, const EdgeParts& parts) {
  GenerationConfig& generation = options.generation;
  AnswerConfig& answer = generation.answer;
  add_model_flags(command, options, parts);
  add_tree_flags(command, options, parts);
  command
      .add_option("-n,--max-tokens", answer.text.max_tokens,
                  "Most tokens of an answer; -1: until it stops")
      ->check(CLI::Range(std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()))
      ->group(kAnswerGroup);
  command
      .add_option("-c,--ctx-size", answer.context,
                  "Most tokens of prompt and answer; 0: the target's")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->group(kAnswerGroup);
  command
      .add_option("--stop", answer.text.stop, "End the answer before this text; may be repeated")
      ->allow_extra_args(false)
      ->default_str("")
      ->group(kAnswerGroup);
  command
      .add_option("--chat-template", generation.chat_template,
                  "Chat template: chatml, llama3, qwen3 and others (a wrong name lists them), one "
                  "of the target's by its name, a Jinja file (a path with a slash, or .jinja at "
                  "its end), or none [the target's]")
      ->group(kAnswerGroup);
  add_sampling_flags(command, generation);
  add_link_flags(command, options);
  add_target_flags(command, options);
  add_level_flags(command, options);
  add_failover_flags(command, options);
  command
      .add_flag("--color-accept", options.color_accept, "Colour the tokens that the draft guessed")
      ->group(kOutputGroup);
  command
      .add_flag("--show-provisional", options.generation.answer.show_provisional,
                "Show what the draft expects next, dimmed, until the target confirms it or it is "
                "taken back; on terminals only")
      ->group(kOutputGroup);
  command
      .add_flag("--explain", options.explain,
                "End each answer with where the time went and what was changed why")
      ->group(kOutputGroup);
  command
      .add_option("--trace", options.trace,
                  "Write what happened when on both sides to this file, for Perfetto; chat: of all "
                  "answers, written anew after each")
      ->group(kOutputGroup);
  command
      .add_option("--price-file", options.generation.price_file,
                  "TOML of what things cost, to report what an answer cost: date, [api] input, "
                  "cached-input, output; [gpu] dollars-per-hour; [link] dollars-per-mb; [device] "
                  "watts, dollars-per-kwh")
      ->group(kOutputGroup);
  add_record_flags(command, options.generation.record, "Of each answer", kOutputGroup);
  command
      .add_option("--power-file", options.generation.device_file,
                  "TOML file with the power of this device's parts, for --slo energy_j: name, "
                  "computes, idle, cores, core, gpu, dram, flash, radio-up, "
                  "radio-down, radio-tail, radio-tail-power")
      ->group(std::string(kOutputGroup) + kRarelyNeeded);
  command
      .add_flag("--json", options.json,
                "End each answer on stdout with one line of JSON: text, ids, figures")
      ->group(kOutputGroup);
  if (parts.add_flags) parts.add_flags(command, options);
}

void add_serve_flags(CLI::App& command, ServingOptions& options) {
  constexpr char kServeGroup[] = "Serving";
  constexpr char kMoreServing[] = "Serving, rarely needed";
  EdgeServerOptions& server = options.server;
  command
      .add_option("--host", server.http.listen.host,
                  "Address to listen on; beyond loopback needs --http-tls-client-ca or --insecure")
      ->group(kServeGroup);
  add_port(command, "--port", server.http.listen.port, "Port to listen on; 0 takes a free one")
      ->group(kServeGroup);
  command
      .add_option(
          "--http-tls-cert", options.tls.cert,
          "Speak TLS to clients, with the certificates in this PEM file; read again when it "
          "changes")
      ->group(kMoreServing);
  command.add_option("--http-tls-key", options.tls.key, "Its key")->group(kMoreServing);
  command
      .add_option("--http-tls-client-ca", options.tls.client_ca,
                  "Answer only clients with a certificate of these authorities")
      ->group(kMoreServing);
  add_traces_flag(command, options.otlp_traces_endpoint, kServeGroup);
  add_web_flags(command, server.http.allowed_hosts, server.http.allowed_origins, kServeGroup);
  add_reading_flags(command, server.reading, kServeGroup);
  command
      .add_option("--max-queued-requests", server.queue.max_waiting,
                  "Requests that may wait while one is answered; the next gets 429")
      ->type_name("INT")
      ->check(CLI::Range(0, 10000))
      ->group(kServeGroup);
  add_duration(command, "--shutdown-timeout", options.shutdown_timeout, std::chrono::seconds(1),
               CLI::Range(0.0, 86400.0),
               "Seconds that answers may go on after SIGTERM; a second one cuts them")
      ->group(kServeGroup);
  command
      .add_option("--served-model-name", server.served_name,
                  "The model's name in answers [the target's]")
      ->group(kServeGroup);
}

Result<GenerationConfig> generation_config(const AnswerOptions& options) {
  GenerationConfig config = options.generation;
  if (options.offline) config.mode = Mode::kOffline;
  config.record.program = "outrider-edge " + Program::version();
  for (const std::string& each : options.slo) {
    OUTRIDER_RETURN_IF_ERROR(read_slo(each, config.answer.wish.slo));
  }
  const DefaultTrees trees = default_trees(config);
  config.answer.speculation.tree.kind = options.tree.value_or(trees.always);
  if (!options.tree) config.answer.offline_tree = trees.offline;
  OUTRIDER_RETURN_IF_ERROR(validate(config));
  if (mode_of(config) != Mode::kOffline) OUTRIDER_RETURN_IF_ERROR(check_link(config, options));
  return config;
}

}  // namespace outrider
