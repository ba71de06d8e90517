// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "common/base/files.h"
#include "common/cli/program.h"
#include "common/conversation/chat_template.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"
#include "edge_client/main/generator.h"
#include "edge_client/metrics/predraft_report.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxPromptBytes = std::int64_t{1} << 26;

Result<std::string> read_prompt(const PromptOptions& options) {
  if (options.prompt) return *options.prompt;
  if (options.file.empty()) return invalid_argument("what prompt? give -p TEXT or -f FILE");
  if (options.file != "-") return read_file(options.file, kMaxPromptBytes);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

// A model that was trained on conversations gets its prompt as one.
Result<Generator::Turn> make_turn(const Tokenizer& tokenizer, const std::string& prompt,
                                  const std::string& template_name, bool raw) {
  Generator::Turn turn;
  const bool has_template = !template_name.empty() || !tokenizer.chat_template_source().empty();
  if (raw || template_name == "none" || !has_template) {
    OUTRIDER_ASSIGN_OR_RETURN(turn.prompt, tokenizer.encode(prompt));
    return turn;
  }
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat,
                            ChatTemplate::choose(tokenizer, template_name));
  OUTRIDER_ASSIGN_OR_RETURN(turn.prompt, chat.encode_chat(tokenizer, {{ChatRole::kUser, prompt}}));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end_of_turn, chat.end_of_turn(tokenizer));
  turn.stop_ids.push_back(end_of_turn);
  return turn;
}

}  // namespace

Result<int> run_command(const AnswerOptions& options, const PromptOptions& prompt_options,
                        Interrupts& interrupts) {
  OUTRIDER_RETURN_IF_ERROR(validate(options));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, read_prompt(prompt_options));
  Generator* running = nullptr;
  Console console(
      {.color_accept = options.color_accept, .on_broken_pipe = [&] { running->cancel(); }});
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Generator> generator,
                            Generator::create(options, console));
  running = generator.get();
  OUTRIDER_ASSIGN_OR_RETURN(
      Generator::Turn turn,
      make_turn(generator->tokenizer(), prompt, options.chat_template, prompt_options.raw));

  interrupts.on_interrupt([&] { generator->cancel(); });
  const Result<AnswerReport> report = generator->answer(std::move(turn));
  interrupts.on_interrupt(nullptr);
  if (!report.ok()) return report.status();

  console.end_line();
  console.print_error_stream(stats_block(*report));
  if (options.explain) console.print_error_stream(explain_block(report->stats));
  OUTRIDER_RETURN_IF_ERROR(generator->write_trace());
  if (options.json) console.print_line(stats_json(*report));
  const Finish& finish = report->finish;
  if (console.broken()) return kExitRuntime;
  if (finish.ending == Ending::kCancelled) return kExitInterrupted;
  if (finish.ending == Ending::kLinkLost || finish.ending == Ending::kFailed) return finish.status;
  return kExitOk;
}

}  // namespace outrider
