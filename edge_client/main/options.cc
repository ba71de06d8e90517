// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/options.h"

#include <limits>

#include "common/base/address.h"
#include "common/model/emulated/pace.h"

namespace outrider {
namespace {

constexpr char kPromptGroup[] = "Prompt (one of -p and -f)";
constexpr char kModelGroup[] = "Models";
constexpr char kAnswerGroup[] = "The answer";
constexpr char kSamplingGroup[] = "Sampling (the same seed gives the same text whatever the draft)";
constexpr char kLinkGroup[] = "Link";
constexpr char kOutputGroup[] = "Output";

void add_model_flags(CLI::App& command, AnswerOptions& o) {
  command.add_option("-m,--model", o.model, "Directory of the draft model")->group(kModelGroup);
  command
      .add_option("--tokenizer", o.tokenizer,
                  "Directory with tokenizer.json [the model's, or else the target's]")
      ->group(kModelGroup);
  command
      .add_option("--strategy", o.strategy,
                  "mirror: draft ahead of the verdicts and send it too; fsd: draft ahead where "
                  "early exits point; sd: draft after each verdict; ar: no draft [mirror if "
                  "--model]")
      ->check(CLI::IsMember({"ar", "sd", "fsd", "mirror"}))
      ->group(kModelGroup);
  command.add_option("--spec-draft-n-max", o.gamma, "Tokens drafted in a round (γ)")
      ->check(CLI::Range(1, 64))
      ->group(kModelGroup);
  command.add_option("--fan-out", o.fan_out, "mirror: next tokens considered at each position")
      ->check(CLI::Range(1, 16))
      ->group(kModelGroup);
  command
      .add_option("--predraft-workers", o.predraft_workers,
                  "fsd, mirror: hypotheses that one pass of the draft serves")
      ->check(CLI::Range(1, 64))
      ->group(kModelGroup);
  command.add_option("--client-queue", o.queue, "fsd, mirror: which hypothesis is drafted first")
      ->check(CLI::IsMember({"priority", "fifo", "random"}))
      ->group(kModelGroup);
  command
      .add_option("--optimize", o.optimize,
                  "mirror: latency: the least time per token; cost: the fewest target passes; "
                  "balanced")
      ->check(CLI::IsMember({"latency", "cost", "balanced"}))
      ->group(kModelGroup);
  command.add_option("--dtype", o.dtype, "What models on this device compute in; auto: as stored")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8"}))
      ->group(kModelGroup);
  command.add_option("--threads", o.threads, "Compute threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->group(kModelGroup);
  command
      .add_option("--pace-step-ms", o.pace_step,
                  "Emulate a slower device: each draft step takes MS; or ROWS:MS,ROWS:MS,..")
      ->group(kModelGroup);
}

void add_sampling_flags(CLI::App& command, AnswerOptions& o) {
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

void add_answer_flags(CLI::App& command, AnswerOptions& o) {
  add_model_flags(command, o);
  command
      .add_option("-n,--max-tokens", o.max_tokens, "Most tokens of an answer; -1: until it stops")
      ->check(CLI::Range(std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()))
      ->group(kAnswerGroup);
  command
      .add_option("-c,--ctx-size", o.context, "Most tokens of prompt and answer; 0: the target's")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->group(kAnswerGroup);
  command.add_option("--stop", o.stop, "End the answer before this text; may be repeated")
      ->allow_extra_args(false)
      ->default_str("")
      ->group(kAnswerGroup);
  command
      .add_option("--chat-template", o.chat_template,
                  "llama2, llama3, vicuna, chatml, zephyr, or none [the tokenizer's]")
      ->group(kAnswerGroup);
  add_sampling_flags(command, o);
  command.add_option("-s,--server", o.server, "HOST:PORT of outrider-server")->group(kLinkGroup);
  command.add_option("--target", o.target, "Directory of a target to run here instead")
      ->group(kLinkGroup);
  command
      .add_option("--reconnect-timeout", o.reconnect_timeout_s,
                  "Seconds to retry a lost server before the answer ends as it is")
      ->check(CLI::Range(0.0, 86400.0))
      ->group(kLinkGroup);
  command
      .add_option("--uplink-budget", o.uplink_budget,
                  "mirror: most bytes per second sent before a verdict; 0: what the measured link "
                  "carries")
      ->check(CLI::Range(0.0, 1e12))
      ->group(kLinkGroup);
  command.add_flag("--insecure", o.insecure, "Allow plaintext to a server on another machine")
      ->group(kLinkGroup);
  command.add_flag("--color-accept", o.color_accept, "Colour the tokens that the draft guessed")
      ->group(kOutputGroup);
  command
      .add_flag("--explain", o.explain,
                "End each answer with where the time went and what was changed why")
      ->group(kOutputGroup);
  command
      .add_option("--trace", o.trace,
                  "Write what happened when on both sides to this file, for Perfetto; chat: of all "
                  "answers, written anew after each")
      ->group(kOutputGroup);
  command
      .add_flag("--json", o.json,
                "End each answer on stdout with one line of JSON: text, ids, figures")
      ->group(kOutputGroup);
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

void add_tokenize_flags(CLI::App& command, TokenizeOptions& options) {
  command.add_option("--tokenizer", options.tokenizer, "Directory with tokenizer.json")->required();
  command.add_flag("--no-special", options.no_special,
                   "Without the special tokens that frame a text, such as <s>");
  command.add_flag("--whole", options.whole, "Take stdin as one text instead of line by line");
}

bool wants_draft(const AnswerOptions& options) {
  return options.strategy.empty() ? !options.model.empty() : options.strategy != "ar";
}

Strategy strategy_of(const AnswerOptions& options) {
  if (options.strategy == "sd") return Strategy::kSd;
  return options.strategy == "fsd" ? Strategy::kFsd : Strategy::kMirror;
}

QueueOrder queue_of(const AnswerOptions& options) {
  if (options.queue == "fifo") return QueueOrder::kFifo;
  return options.queue == "random" ? QueueOrder::kRandom : QueueOrder::kPriority;
}

Optimize goal_of(const AnswerOptions& options) {
  if (options.optimize == "cost") return Optimize::kCost;
  return options.optimize == "balanced" ? Optimize::kBalanced : Optimize::kLatency;
}

Status validate(const AnswerOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(validate(options.sampling));
  if (wants_draft(options) && options.model.empty()) {
    return invalid_argument("--strategy " + options.strategy +
                            " needs a draft: name its directory with --model");
  }
  if (!options.pace_step.empty()) {
    const Result<PaceCurve> pace = PaceCurve::parse(options.pace_step);
    if (!pace.ok()) return pace.status().with_context("--pace-step-ms");
  }
  if (!options.target.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const Address server, parse_address(options.server));
  if (!is_loopback(server.host) && !options.insecure) {
    return invalid_argument("--server " + options.server +
                            ": prompts would cross the network in plaintext; use a tunnel to "
                            "127.0.0.1, or allow it with --insecure");
  }
  return {};
}

Result<std::string> tokenizer_directory(const AnswerOptions& options) {
  if (!options.tokenizer.empty()) return options.tokenizer;
  if (!options.model.empty()) return options.model;
  if (!options.target.empty()) return options.target;
  return invalid_argument(
      "which tokenizer? name its directory with --tokenizer, or a draft with --model");
}

}  // namespace outrider
