// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/edge_main.h"

#include <optional>
#include <string>

#include "common/base/processors.h"
#include "common/serving/cli/program.h"
#include "common/serving/cli/resources.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/options.h"
#include "proto/grpc_log.h"

namespace outrider {
namespace {

constexpr char kExamples[] = R"(Examples:
  # answer a prompt: the draft here guesses, the server's target decides
  outrider-edge run --model models/demo-draft --server 127.0.0.1:8001 -p "Pick up the red cup."

  # the same text without a draft, decoded by the server alone
  outrider-edge run --strategy ar --tokenizer models/demo-draft -p "Pick up the red cup."

  # no server: draft and target in this process
  outrider-edge run --model models/demo-draft --target models/demo-target -p "..." --json

  # a target larger than memory: packed once, then streamed from the flash
  outrider-edge pack --model models/demo-target --out target.pack
  outrider-edge run --model models/demo-draft --target target.pack --memory-budget 200MiB -p "..."

  # a conversation
  outrider-edge chat --model models/demo-draft

Every flag may also stand in the environment (--temp: OUTRIDER_TEMP) or in a --config file.
'outrider-edge run --help' lists the flags of run.)";

constexpr char kRunExamples[] = R"(Examples:
  outrider-edge run --model models/demo-draft -p "Pick up the red cup."
  outrider-edge run --model models/demo-draft -f prompt.txt --temp 0.7 --seed 7 -n 200
  outrider-edge run --model models/demo-draft -p "..." --color-accept --spec-draft-n-max 6

The text goes to stdout as it is committed, everything else to stderr. Ctrl-C ends the answer at
the server and shows the figures (exit code 130), a second one ends at once.)";

constexpr char kChatExamples[] = R"(Examples:
  outrider-edge chat --model models/demo-draft
  outrider-edge chat --model models/demo-draft --explain --trace chat.json

The figures of an answer are shown when asked for: /stats shows those of the last answer, --json
prints them after each, --explain tells after each where its time went.
Ctrl-C ends the answer in work at the server and shows its figures. At a terminal the conversation
goes on, and Ctrl-C at the prompt ends it; otherwise it ends there (both: exit code 130). Ctrl-D
ends it as /exit does. Arrow keys edit the line and bring earlier ones back. /help lists commands.)";

constexpr char kServeExamples[] = R"(Examples:
  outrider-edge serve --model models/demo-draft
  curl http://127.0.0.1:8080/v1/chat/completions \
    -d '{"messages":[{"role":"user","content":"Pick up the red cup."}],"stream":true}'

Any OpenAI client speaks to it (base URL http://127.0.0.1:8080/v1); a browser finds a page to chat
in at http://127.0.0.1:8080/. Requests are answered one after the other.)";

constexpr char kDoctorExamples[] = R"(Examples:
  outrider-edge doctor --model models/demo-draft --server 127.0.0.1:8001
  outrider-edge doctor --model models/demo-draft --json -p "Pick up the red cup." -p "Find it."
  outrider-edge doctor --target models/demo-target --model models/demo-draft

With a server: tries the strategies over this link with real answers, on each side that drafts.
With a target on this device: tries the draft model, look-up, both, and of a pack with levels in a
memory budget the largest level that fits. Judges the best on other answers against decoding
without a draft, and says on stdout whether drafting pays off, and how.)";

constexpr char kTokenizeExamples[] = R"(Example:
  echo "Hello" | outrider-edge tokenize --tokenizer models/demo-target --add-special
  outrider-edge tokenize --model SmolLM2-135M-Instruct.Q4_1.gguf < book.txt)";

constexpr char kDetokenizeExamples[] = R"(Example:
  echo "[72, 101]" | outrider-edge detokenize --tokenizer models/demo-target)";

constexpr char kPackExamples[] = R"(Examples:
  outrider-edge pack --model models/demo-target --out target.pack
  outrider-edge pack --model SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2.pack --dtype int4

A pack holds weights as this program computes with them, tokenizer, config, early exits and what
prunes (--predictor) in one file. It is of one dtype, and of this program's version of the kernels.)";

constexpr char kAuditExamples[] = R"(Examples:
  outrider-edge run --model models/demo-draft -p "Pick up the red cup." --record answers.jsonl
  outrider-edge audit answers.jsonl --target models/demo-target
  outrider-edge audit answers.jsonl --target models/demo-target --signer 5f1c..9a --sample 0.05

Reads each answer again with its tokens given, 64 positions a pass, and names the first position
where a token, a digest, a setting or an id differs (exit code 1). docs/audit.md says what that
proves.)";

// Threads beside those that compute: of one answer with a server, and without.
constexpr int kThreadsOnline = 20;
constexpr int kThreadsOffline = 8;

// Threads and files that an answer needs.
Status check_resources(const AnswerOptions& answer, bool serves) {
  const GenerationConfig& config = answer.generation;
  const int pool = config.loading.threads > 0 ? config.loading.threads : usable_processors();
  const int pools = (config.model.empty() ? 0 : 1) + (config.target.empty() ? 0 : 1);
  const bool stays_here = answer.offline || config.mode == Mode::kOffline;
  const int beside = serves ? kThreadsBesideCompute : stays_here ? kThreadsOffline : kThreadsOnline;
  OUTRIDER_RETURN_IF_ERROR(check_threads(pool * pools + beside));
  return check_descriptors(kDescriptors);
}

}  // namespace

int edge_main(int argc, char** argv, const EdgeParts& parts) {
  Program program(parts.program,
                  "Answers with a large model elsewhere, faster: a small draft model on "
                  "this device guesses ahead,\nthe target model decides every token.");
  Interrupts interrupts;  // before anything that a Ctrl-C might come into
  CLI::App& app = program.app();
  app.require_subcommand(1);
  app.footer(kExamples);

  AnswerOptions answer;
  PromptOptions prompt;
  TokenizeOptions tokens;
  CLI::App* run = app.add_subcommand("run", "Answer one prompt")->footer(kRunExamples);
  add_prompt_flags(*run, prompt);
  add_answer_flags(*run, answer, parts);
  CLI::App* chat = app.add_subcommand("chat", "Hold a conversation")->footer(kChatExamples);
  ChatOptions conversation;
  add_chat_flags(*chat, conversation);
  add_answer_flags(*chat, answer, parts);
  ServingOptions serving;
  CLI::App* serve =
      app.add_subcommand("serve", "Answer OpenAI clients and a chat page on this machine")
          ->footer(kServeExamples);
  add_serve_flags(*serve, serving);
  add_answer_flags(*serve, answer, parts);
  DoctorOptions examination;
  CLI::App* doctor = app.add_subcommand("doctor", "Say whether drafting pays off, by whom and how")
                         ->footer(kDoctorExamples);
  add_doctor_flags(*doctor, examination);
  add_answer_flags(*doctor, answer, parts);
  CLI::App* tokenize =
      app.add_subcommand("tokenize", "Text to token ids")->footer(kTokenizeExamples);
  add_tokenize_flags(*tokenize, tokens);
  CLI::App* detokenize =
      app.add_subcommand("detokenize", "Token ids to text")->footer(kDetokenizeExamples);
  add_detokenize_flags(*detokenize, tokens);

  PackOptions packing;
  CLI::App* pack =
      app.add_subcommand("pack", "Prepare a model for streaming from this device's flash")
          ->footer(kPackExamples);
  add_pack_flags(*pack, packing);
  add_force_flag(*pack);
  AuditOptions auditing;
  CLI::App* audits = app.add_subcommand("audit", "Check records of answers by reading them again")
                         ->footer(kAuditExamples);
  add_audit_flags(*audits, auditing);
  for (CLI::App* answers : {run, chat, serve, doctor}) {
    add_force_flag(*answers)->group(std::string("Output") + kRarelyNeeded);
  }

  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  take_over_grpc_log();
  const Result<int> code = [&]() -> Result<int> {
    if (tokenize->parsed()) return tokenize_command(tokens);
    if (detokenize->parsed()) return detokenize_command(tokens);
    if (pack->parsed()) return pack_command(packing);
    if (audits->parsed()) return audit_command(auditing);
    OUTRIDER_RETURN_IF_ERROR(check_resources(answer, serve->parsed()));
    if (run->parsed()) return run_command(answer, prompt, interrupts);
    if (doctor->parsed()) return doctor_command(answer, examination, interrupts);
    if (serve->parsed()) return serve_command(answer, serving, interrupts);
    return chat_command(answer, conversation, interrupts);
  }();
  return program.finish(code);
}

int edge_main(int argc, char** argv) {
  return edge_main(argc, argv, {});
}

}  // namespace outrider
