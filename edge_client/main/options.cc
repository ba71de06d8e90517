// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/options.h"

#include <limits>

#include "common/cli/choice.h"
#include "edge_client/main/link_options.h"

namespace outrider {
namespace {

constexpr char kPromptGroup[] = "Prompt (one of -p and -f)";
constexpr char kModelGroup[] = "Models";
constexpr char kDraftingGroup[] = "Drafting, rarely needed";
constexpr char kAnswerGroup[] = "The answer";
constexpr char kSamplingGroup[] = "Sampling (the same seed gives the same text whatever the draft)";
constexpr char kTargetGroup[] = "Target on this device";
constexpr char kPruningGroup[] = "Target on this device, rarely needed";
constexpr char kFailoverGroup[] = "Between the server's target and this device's";
constexpr char kSwitchingGroup[] = "Between the server's target and this device's, rarely needed";
constexpr char kOutputGroup[] = "Output";

void add_model_flags(CLI::App& command, AnswerOptions& options, const EdgeParts& parts) {
  GenerationConfig& o = options.generation;
  AnswerConfig& answer = o.answer;
  command.add_option("-m,--model", o.model, "Draft model: a Hugging Face directory or a GGUF file")
      ->group(kModelGroup);
  command
      .add_option("--tokenizer", o.tokenizer,
                  "Its directory or GGUF file [the model's, or else the target's]")
      ->group(kModelGroup);
  add_choice(command, "--strategy", answer.strategy, parts.strategies,
             "mirror: draft ahead of the verdicts and send it too; fsd: draft ahead where "
             "early exits point; sd: draft after each verdict; ar: no draft [mirror if --model]")
      ->group(kModelGroup);
  command
      .add_option("--spec-draft-n-max", answer.gamma,
                  "Tokens drafted in a round (γ); mirror: at most so many, except with "
                  "--optimize cost [4, mirror 8]")
      ->check(CLI::Range(1, 64))
      ->group(kModelGroup);
  command.add_option("--draft-branches", answer.branches, "sd, fsd: chains drafted in a round")
      ->check(CLI::Range(1, 8))
      ->group(kDraftingGroup);
  command
      .add_option("--fan-out", answer.fan_out, "mirror: next tokens considered at each position")
      ->check(CLI::Range(1, 16))
      ->group(kDraftingGroup);
  command
      .add_option("--predraft-workers", o.predraft_workers,
                  "fsd, mirror: hypotheses that one pass of the draft serves")
      ->check(CLI::Range(1, 64))
      ->group(kDraftingGroup);
  add_choice(command, "--optimize", answer.optimize,
             "mirror: latency: the least time per token; cost: the fewest target passes; "
             "balanced")
      ->group(kModelGroup);
  command.add_option("--dtype", o.dtype, "What models on this device compute in; auto: as stored")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}))
      ->group(kModelGroup);
  command
      .add_option("--kv-dtype", o.kv_dtype, "Keys and values; bf16: half the memory, other bits")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->group(kDraftingGroup);
  command
      .add_option("--cache-dir", o.cache_dir,
                  "Where converted weights are kept for the next start: a folder, auto (the user's "
                  "cache), none")
      ->group(kDraftingGroup);
  command
      .add_option(
          "--state-dir", o.state_dir,
          "Directory for learned link and acceptance statistics, with which the next answer "
          "begins: a folder, auto (the user's state), none")
      ->group(kDraftingGroup);
  command.add_option("--threads", o.threads, "Compute threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->group(kModelGroup);
}

void add_tree_flags(CLI::App& command, AnswerOptions& options, const EdgeParts& parts) {
  AnswerConfig& answer = options.generation.answer;
  add_choice(command, "--tree", options.tree, parts.trees,
             "sd: what a round is: chain; llmcad, edgellm, lever: the trees of those papers; "
             "outrider: ours [outrider from a pack without a server, else chain]")
      ->group(kModelGroup);
  command
      .add_option("--tree-size", answer.tree.size,
                  "Most nodes of a tree; 0: the policy's own bound. The verifier's bound holds too")
      ->check(CLI::Range(0, 512))
      ->group(kDraftingGroup);
  command
      .add_flag("--tree-exits", answer.tree.exits,
                "--tree outrider: take the target's early exits as evidence for what is drafted "
                "while a pass is under way")
      ->group(kDraftingGroup);
  command
      .add_option("--provisional", answer.provisional,
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
          .add_option("--memory-budget", generation.memory_budget,
                      "Of a pack: most memory for everything, as 2GiB; layers that do not fit are "
                      "streamed from the flash in each pass [no bound]")
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

void add_failover_flags(CLI::App& command, AnswerOptions& options) {
  FailoverConfig& failover = options.generation.failover;
  CLI::Option* const mode = add_choice(
      command, "--mode", failover.mode,
      "Who decides: auto: the server, and --target while the link is lost; online; offline "
      "[auto if both are named]");
  mode->group(kFailoverGroup);
  command.add_flag("--offline", options.offline, "The same as --mode offline")
      ->excludes(mode)
      ->group(kFailoverGroup);
  command
      .add_option("--offline-target", failover.offline_target,
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
  command
      .add_option("--failover-after", options.failover_after_s,
                  "Seconds of silence before a server's first verdict that mean a lost link; later "
                  "it is four times the usual gap between its messages")
      ->check(CLI::Range(0.01, 3600.0))
      ->group(kSwitchingGroup);
  command
      .add_option("--handback-after", options.handback_after_s,
                  "Seconds that the link must be good before the server decides again; more where "
                  "going back was not worth it")
      ->check(CLI::Range(0.0, 3600.0))
      ->group(kSwitchingGroup);
  command
      .add_option(
          "--min-rate", failover.min_rate,
          "Tokens per second below which the link counts as lost; 0: as measured of --target")
      ->check(CLI::Range(0.0, 1e9))
      ->group(kSwitchingGroup);
  command
      .add_option("--max-rtt", options.max_rtt_ms,
                  "Milliseconds of a round trip above which the link counts as lost; 0: any")
      ->check(CLI::Range(0.0, 3.6e6))
      ->group(kSwitchingGroup);
  command
      .add_option(
          "--metered-limit", options.metered_limit_mb,
          "Megabytes to and from the server after which --target decides alone; 0: no limit")
      ->check(CLI::Range(0.0, 1e9))
      ->group(kFailoverGroup);
}

void add_sampling_flags(CLI::App& command, AnswerConfig& o) {
  command.add_option("--temp", o.sampling.temperature, "Temperature; 0: always the likeliest")
      ->check(CLI::Range(0.0, 100.0))
      ->group(kSamplingGroup);
  command.add_option("--top-k", o.sampling.top_k, "Keep the k likeliest; 0: all")
      ->check(CLI::Range(0, std::numeric_limits<std::int32_t>::max()))
      ->group(kSamplingGroup);
  command.add_option("--top-p", o.sampling.top_p, "Keep the likeliest with this sum; 1: all")
      ->check(CLI::Range(0.0, 1.0))
      ->group(kSamplingGroup);
  command.add_option("--min-p", o.sampling.min_p, "Drop those below this share of the likeliest")
      ->check(CLI::Range(0.0, 1.0))
      ->group(kSamplingGroup);
  command.add_option("--seed", o.seed, "Seed of the noise")->group(kSamplingGroup);
}

}  // namespace

void add_answer_flags(CLI::App& command, AnswerOptions& options, const EdgeParts& parts) {
  GenerationConfig& generation = options.generation;
  AnswerConfig& answer = generation.answer;
  add_model_flags(command, options, parts);
  add_tree_flags(command, options, parts);
  command
      .add_option("-n,--max-tokens", answer.max_tokens,
                  "Most tokens of an answer; -1: until it stops")
      ->check(CLI::Range(std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()))
      ->group(kAnswerGroup);
  command
      .add_option("-c,--ctx-size", answer.context,
                  "Most tokens of prompt and answer; 0: the target's")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->group(kAnswerGroup);
  command.add_option("--stop", answer.stop, "End the answer before this text; may be repeated")
      ->allow_extra_args(false)
      ->default_str("")
      ->group(kAnswerGroup);
  command
      .add_option("--chat-template", generation.chat_template,
                  "Chat template: chatml, llama3, qwen3 and others (a wrong name lists them), one "
                  "of the target's by its name, a Jinja file (a path with a slash, or .jinja at "
                  "its end), or none [the target's]")
      ->group(kAnswerGroup);
  add_sampling_flags(command, answer);
  add_link_flags(command, options);
  add_target_flags(command, options);
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
                  "TOML of what things cost, to tell what an answer did: date, [api] input, "
                  "cached-input, output; [gpu] dollars-per-hour; [link] dollars-per-mb; [device] "
                  "watts, dollars-per-kwh")
      ->group(kOutputGroup);
  command
      .add_flag("--json", options.json,
                "End each answer on stdout with one line of JSON: text, ids, figures")
      ->group(kOutputGroup);
  if (parts.add_flags) parts.add_flags(command, options);
}

void add_prompt_flags(CLI::App& command, PromptOptions& options) {
  CLI::Option* prompt =
      command.add_option("-p,--prompt", options.prompt, "The prompt")->group(kPromptGroup);
  command.add_option("-f,--file", options.file, "Read it from this file; -: from stdin")
      ->excludes(prompt)
      ->group(kPromptGroup);
  command.add_flag("--raw", options.raw, "No chat template, the same as --chat-template none")
      ->group(kPromptGroup);
}

void add_chat_flags(CLI::App& command, ChatOptions& options) {
  command
      .add_flag("--context-shift", options.context_shift,
                "Drop the oldest turns of a conversation that outgrows the context, and say so")
      ->group("The conversation");
}

void add_serve_flags(CLI::App& command, ServingOptions& options) {
  constexpr char kServeGroup[] = "Serving";
  command
      .add_option("--host", options.host, "Address to listen on; beyond loopback needs --insecure")
      ->group(kServeGroup);
  command.add_option("--port", options.port, "Port to listen on; 0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->group(kServeGroup);
  command
      .add_option("--allowed-hosts", options.allowed_hosts,
                  "Names, beside localhost and addresses, by which browsers (and on this machine "
                  "all programs) may reach it, as NAME,NAME; *: any")
      ->delimiter(',')
      ->default_str("")
      ->group(kServeGroup);
  command
      .add_option("--max-queued-requests", options.max_queued_requests,
                  "Requests that may wait while one is answered; the next gets 429")
      ->check(CLI::Range(0, 10000))
      ->group(kServeGroup);
  command
      .add_option("--shutdown-timeout", options.shutdown_timeout_s,
                  "Seconds that answers may go on after SIGTERM; a second one cuts them")
      ->check(CLI::Range(0.0, 86400.0))
      ->group(kServeGroup);
  command
      .add_option("--served-model-name", options.model_name,
                  "The model's name in answers [the target's]")
      ->group(kServeGroup);
}

void add_doctor_flags(CLI::App& command, DoctorOptions& options) {
  command
      .add_option("-p,--prompt", options.prompts,
                  "A prompt like those to come; may be repeated [eight of its own]")
      ->allow_extra_args(false)
      ->default_str("")
      ->group("Trials");
}

void add_tokenize_flags(CLI::App& command, TokenizeOptions& options) {
  command.add_option("--tokenizer,-m,--model", options.tokenizer, "Its directory or GGUF file")
      ->required();
  command.add_flag("--no-special", options.no_special,
                   "Without the special tokens that frame a text, such as <s>");
  command.add_flag("--whole", options.whole, "Take stdin as one text instead of line by line");
}

void add_pack_flags(CLI::App& command, PackOptions& options) {
  command.add_option("-m,--model", options.model, "A Hugging Face directory or a GGUF file")
      ->required();
  command.add_option("-o,--out", options.out, "The pack; replaced when the new one is whole")
      ->required();
  command.add_option("--predictor", options.predictor,
                     "Directory of what prunes, by outrider-train predictor: carried along, and "
                     "used where --prune is asked for");
  command.add_option("--dtype", options.dtype, "What it is to compute in; auto: as stored")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}));
  command.add_option("--threads", options.threads, "Threads that convert; 0: one per core")
      ->check(CLI::Range(0, 1024));
}

Result<GenerationConfig> generation_config(const AnswerOptions& options) {
  GenerationConfig config = options.generation;
  if (options.offline) config.failover.mode = Mode::kOffline;
  const DefaultTrees trees = default_trees(config);
  config.answer.tree.kind = options.tree.value_or(trees.always);
  if (!options.tree) config.answer.offline_tree = trees.offline;
  config.answer.reconnect_timeout = from_ms(options.reconnect_timeout_s * 1e3);
  FailoverConfig& failover = config.failover;
  failover.failover_after = from_ms(options.failover_after_s * 1e3);
  failover.handback_after = from_ms(options.handback_after_s * 1e3);
  failover.max_round_trip = from_ms(options.max_rtt_ms);
  failover.metered_limit = static_cast<std::uint64_t>(options.metered_limit_mb * 1e6);
  OUTRIDER_RETURN_IF_ERROR(validate(config));
  if (mode_of(config) != Mode::kOffline) OUTRIDER_RETURN_IF_ERROR(check_link(config, options));
  return config;
}

}  // namespace outrider
