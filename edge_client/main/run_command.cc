// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/engine/text/pipeline/utf8.h"
#include "common/serving/cli/program.h"
#include "common/serving/conversation/conversation.h"
#include "common/serving/telemetry/log.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"
#include "edge_client/main/trace_file.h"
#include "edge_client/report/answer_report.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxPromptBytes = std::int64_t{1} << 26;

// Editors end a text with a newline, and those of Windows leave a byte order mark and carriage
// returns: tokens of the prompt that nobody sees.
Result<std::string> without_marks(std::string text, const std::string& file) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return invalid_argument(file + ": is UTF-16. Remedy: save it as UTF-8");
  }
  const bool marked = text.starts_with("\xEF\xBB\xBF");
  if (marked) text.erase(0, 3);
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends_line = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (!ends_line) plain += text[i];
  }
  const std::size_t returns = text.size() - plain.size();
  const bool ended = plain.ends_with('\n');
  if (ended) plain.pop_back();
  if (marked || returns > 0 || ended) {
    log(LogLevel::kInfo, "the prompt is read without what editors add to a text",
        {{"file", file},
         {"byte_order_mark", marked},
         {"carriage_returns", returns},
         {"last_newline", ended}});
  }
  return plain;
}

Result<std::string> read_prompt(const PromptOptions& options) {
  if (options.prompt) {
    OUTRIDER_RETURN_IF_ERROR(check_utf8(*options.prompt, "-p"));
    return *options.prompt;
  }
  if (options.file.empty()) return invalid_argument("what prompt? give -p TEXT or -f FILE");
  const bool is_stdin = options.file == "-";
  OUTRIDER_ASSIGN_OR_RETURN(std::string text,
                            read_stream(is_stdin ? "/dev/stdin" : options.file, kMaxPromptBytes));
  const std::string file = is_stdin ? "stdin" : options.file;
  OUTRIDER_ASSIGN_OR_RETURN(text, without_marks(std::move(text), file));
  OUTRIDER_RETURN_IF_ERROR(check_utf8(text, file));
  return text;
}

}  // namespace

Result<int> run_command(const AnswerOptions& options, const PromptOptions& prompt_options,
                        Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(GenerationConfig config, generation_config(options));
  if (prompt_options.raw) config.chat_template = "none";
  OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, read_prompt(prompt_options));
  std::stop_source stop;
  Console console({.color_accept = options.color_accept,
                   .show_provisional = config.answer.show_provisional,
                   .on_broken_pipe = [&] { stop.request_stop(); }});
  TraceFile trace(options.trace);
  OUTRIDER_RETURN_IF_ERROR(trace.check());
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  OUTRIDER_ASSIGN_OR_RETURN(const ChatSource chat, setup->chat().wait());
  if (!has_chat_template(chat, setup->chat().name())) {
    std::fprintf(stderr,
                 "chat template: none comes with this model, so it goes on with the prompt as it "
                 "is. --chat-template NAME or FILE gives it one, --raw does without\n");
  }
  OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt encoded,
                            encode_prompt(setup->tokenizer(), chat, prompt, setup->chat().name(),
                                          {.parse_special = prompt_options.parse_special}));
  OUTRIDER_ASSIGN_OR_RETURN(const AnswerConfig answer, setup->answer_config());
  if (setup->flash() != nullptr) trace.watch(setup->flash()->log());
  Generator generator(setup->parts(trace.observer()), console);

  interrupts.on_interrupt([&] { stop.request_stop(); });
  Result<AnswerReport> report =
      generator.answer({.prompt = std::move(encoded), .config = answer}, stop.get_token());
  interrupts.on_interrupt(nullptr);
  if (!report.ok()) return report.status();

  console.end_line();
  Finish& finish = report->finish;
  if (finish.ending == Ending::kCancelled && !console.output().ok()) {
    finish = {.ending = Ending::kFailed, .status = console.output()};
  }
  console.print_error_stream(stats_block(*report));
  if (options.explain) console.print_error_stream(explanation(*report));
  OUTRIDER_RETURN_IF_ERROR(trace.write());
  if (options.json) console.print_line(stats_json(*report));
  OUTRIDER_RETURN_IF_ERROR(console.output());
  if (finish.ending == Ending::kCancelled) return kExitInterrupted;
  if (finish.ending == Ending::kLinkLost || finish.ending == Ending::kFailed) return finish.status;
  return kExitOk;
}

}  // namespace outrider
