// The flags of single commands, except serve. SPDX-License-Identifier: Apache-2.0
#include <string>

#include "common/engine/model/devices/device_models.h"
#include "edge_client/main/options.h"

namespace outrider {
namespace {

constexpr char kPromptGroup[] = "Prompt (one of -p and -f)";
constexpr char kMorePromptGroup[] = "Prompt, rarely needed";

CLI::Option* add_no_parse_special(CLI::App& command, bool& parse_special) {
  return command.add_flag_function(
      "--no-parse-special", [&parse_special](std::int64_t times) { parse_special = times <= 0; },
      "Of a text without a chat template: read special tokens that it spells out as text");
}

void add_text_flags(CLI::App& command, TokenizeOptions& options) {
  command.add_option("--tokenizer,-m,--model", options.tokenizer, "Its directory or GGUF file")
      ->required();
  command.add_flag("--whole", options.whole, "Take stdin as one text instead of line by line");
}

}  // namespace

void add_prompt_flags(CLI::App& command, PromptOptions& options) {
  CLI::Option* prompt =
      command.add_option("-p,--prompt", options.prompt, "The prompt")->group(kPromptGroup);
  command.add_option("-f,--file", options.file, "Read it from this file; -: from stdin")
      ->excludes(prompt)
      ->group(kPromptGroup);
  command
      .add_flag("--raw", options.raw,
                "No chat template, the same as --chat-template none: the prompt's own special "
                "tokens count")
      ->group(kPromptGroup);
  add_no_parse_special(command, options.parse_special)->group(kMorePromptGroup);
}

void add_chat_flags(CLI::App& command, ChatOptions& options) {
  command
      .add_flag("--context-shift", options.context_shift,
                "Drop the oldest turns of a conversation that outgrows the context, and say so")
      ->group("The conversation");
}

void add_doctor_flags(CLI::App& command, DoctorOptions& options) {
  command
      .add_option("-p,--prompt", options.prompts,
                  "A prompt like those to come; may be repeated [fourteen of its own]")
      ->allow_extra_args(false)
      ->default_str("")
      ->group("Trials");
}

void add_tokenize_flags(CLI::App& command, TokenizeOptions& options) {
  add_text_flags(command, options);
  CLI::Option* const add = command.add_flag(
      "--add-special", options.raw.add_special,
      "Add the special tokens that frame a text, such as <s>, if they are missing");
  command
      .add_flag_function(
          "--no-special", [](std::int64_t) {}, "Do not add them, which is the default")
      ->excludes(add);
  add_no_parse_special(command, options.raw.parse_special);
}

void add_detokenize_flags(CLI::App& command, TokenizeOptions& options) {
  add_text_flags(command, options);
  command.add_flag("--no-special", options.no_special,
                   "Without the special tokens that frame a text, such as <s>");
}

void add_pack_flags(CLI::App& command, PackOptions& options) {
  command.add_option("-m,--model", options.model, "A Hugging Face directory or a GGUF file")
      ->required();
  command.add_option("-o,--out", options.out, "The pack; replaced when the new one is whole")
      ->required();
  command.add_option("--predictor", options.predictor,
                     "Directory by outrider-train predictor, of what prunes with --prune");
  command.add_flag("--elastic", options.elastic,
                   "With the levels of the model's elastic.json, so that each can be read alone");
  command.add_option("--dtype", options.dtype, "What it is to compute in; auto: as stored")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}));
  command.add_option("--threads", options.threads, "Threads that convert; 0: all that are granted")
      ->check(CLI::Range(0, 1024));
}

void add_audit_flags(CLI::App& command, AuditOptions& options) {
  constexpr char kTargetGroup[] = "Target";
  constexpr char kMoreOfTarget[] = "Target, rarely needed";
  constexpr char kAuditGroup[] = "Audit";
  GenerationConfig& generation = options.generation;
  LoadOptions& loading = generation.loading;
  command.add_option("FILE", options.file, "Records, as --record writes them")->required();
  command
      .add_option("--target", generation.target,
                  "The target that the records are said to come from: a directory, a GGUF file or "
                  "a pack")
      ->required()
      ->group(kTargetGroup);
  command.add_option("--dtype", loading.dtype, "What it computes in; auto: as stored")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}))
      ->group(kTargetGroup);
  command.add_option("--kv-dtype", loading.kv_dtype, "Keys and values")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->group(kTargetGroup);
  command.add_option("--elastic", generation.elastic, "Level table of --target")
      ->group(kTargetGroup);
  command
      .add_option("--chat-template", generation.chat_template,
                  "The operator's, where it is not the target's own")
      ->group(kMoreOfTarget);
  command
      .add_option("--memory-budget", generation.flash.memory_budget,
                  "Of a pack: most memory for everything, as 2GiB [no bound]")
      ->transform(CLI::AsSizeValue(true))
      ->default_str("")
      ->group(kMoreOfTarget);
  command.add_option("--threads", loading.threads, "Compute threads; 0: all that are granted")
      ->check(CLI::Range(0, 1024))
      ->group(kTargetGroup);
  add_device_flags(command, loading, kMoreOfTarget, kMoreOfTarget);
  command
      .add_option("--signer", options.signer,
                  "Public key that must have signed each record: its digits, or a file that has "
                  "them [any, or none]")
      ->group(kAuditGroup);
  CLI::Option* const sample =
      command
          .add_option("--sample", options.sample,
                      "Read only this share of the answers again, drawn by --seed; form, chain and "
                      "signature are checked of all")
          ->check(CLI::Range(0.0, 1.0))
          ->group(kAuditGroup);
  command
      .add_option("--seed", options.seed,
                  "By which they are drawn; choose it after the file was handed over [drawn]")
      ->needs(sample)
      ->group(kAuditGroup);
  command
      .add_option("--texts", options.texts,
                  "Of records with hashes only: the texts, as they were kept [FILE.texts]")
      ->group(kAuditGroup);
}

}  // namespace outrider
