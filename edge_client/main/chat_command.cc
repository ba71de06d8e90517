// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "common/engine/text/pipeline/utf8.h"
#include "common/serving/cli/program.h"
#include "common/serving/conversation/answer_length.h"
#include "common/serving/conversation/conversation.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"
#include "edge_client/main/line_editor.h"
#include "edge_client/main/trace_file.h"
#include "edge_client/report/answer_report.h"

namespace outrider {
namespace {

constexpr char kPrompt[] = "> ";
constexpr char kContextRemedy[] =
    "/clear begins a new conversation, --context-shift drops the oldest turns";
constexpr char kHelp[] =
    "Type a message, or /clear (begin a new conversation), /stats (of the last answer), /help, "
    "/exit.\n";
// --context-shift makes room for an answer of this share of the context, or of -n tokens.
constexpr Position kAnswerShare = 4;

class Chat final {
 public:
  // stop: ends the answer in work; renewed for each.
  Chat(const AnswerOptions& options, const ChatOptions& chat, const AnswerConfig& config,
       Interrupts& interrupts, Console& console, Generator& generator, Conversation conversation,
       TraceFile& trace, std::stop_source& stop)
      : options_(options),
        chat_(chat),
        config_(config),
        interrupts_(interrupts),
        console_(console),
        generator_(generator),
        conversation_(std::move(conversation)),
        trace_(trace),
        stop_(stop) {}

  Result<int> run() {
    if (interactive_) console_.print_error_stream(kHelp);
    std::string line;
    while (next_line(line)) {
      if (line == "/exit") break;
      if (line.empty()) continue;
      if (line.starts_with("/") && line.find('\n') == std::string::npos) {
        command(line);
      } else if (Status status = check_and_talk(line); !status.ok()) {
        console_.on_say({Say::Level::kWarning, status.to_string()});
        exit_code_ = kExitRuntime;
      }
      OUTRIDER_RETURN_IF_ERROR(console_.output());
      // Nobody asks for more.
      if (cancelled_ && (!interactive_ || interrupts_.terminated())) return kExitInterrupted;
    }
    return interrupted_ ? kExitInterrupted : exit_code_;
  }

 private:
  Status check_and_talk(const std::string& line) {
    OUTRIDER_RETURN_IF_ERROR(check_utf8(line, "the message"));
    return talk(line);
  }

  bool next_line(std::string& line) {
    if (editor_ != nullptr) return edit_line(line);
    if (interactive_) console_.print_error_stream(kPrompt);
    if (!std::getline(std::cin, line)) return false;
    if (std::exchange(first_line_, false) && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (line.ends_with('\r')) line.pop_back();  // of a file from Windows
    return true;
  }

  bool edit_line(std::string& line) {
    interrupts_.on_interrupt([this] {
      interrupted_ = true;
      editor_->stop();
    });
    std::optional<std::string> edited = editor_->read_line();
    interrupts_.on_interrupt(nullptr);
    if (!edited || interrupted_) return false;
    line = *std::move(edited);
    return true;
  }

  void command(const std::string& line) {
    if (line == "/clear") {
      conversation_.clear();
    } else if (line == "/stats") {
      console_.print_error_stream(last_stats_.empty() ? "No answer yet.\n" : last_stats_);
    } else if (line == "/help") {
      console_.print_error_stream(kHelp);
    } else {
      console_.print_error_stream("Unknown command " + without_controls(line) + ". " + kHelp);
    }
  }

  // Tokens that the target holds; 0: not known yet.
  Position context() const {
    const bool shorter = config_.context > 0 && config_.context < target_context_;
    return shorter || target_context_ == 0 ? config_.context : target_context_;
  }

  // A message that does not fit into the context is refused, or the oldest turns are dropped.
  Result<EncodedPrompt> ask(const std::string& message) {
    OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt prompt, conversation_.ask(message));
    if (context() == 0) return prompt;
    const auto length = [&] { return static_cast<Position>(prompt.ids.size()); };
    Position room = context() / kAnswerShare;
    const std::int64_t asked = config_.text.max_tokens;
    if (asked >= 0 && asked < room) room = asked;
    int dropped = 0;
    while (chat_.context_shift && length() + room > context() && conversation_.drop_oldest_turn()) {
      ++dropped;
      OUTRIDER_ASSIGN_OR_RETURN(prompt, conversation_.ask(message));
    }
    if (dropped > 0) {
      console_.on_say({Say::Level::kInfo, "context: dropped the oldest " + std::to_string(dropped) +
                                              (dropped == 1 ? " turn" : " turns") +
                                              " of the conversation to make room"});
    }
    const char* const remedy = conversation_.empty() ? "shorten the message" : kContextRemedy;
    OUTRIDER_RETURN_IF_ERROR(check_prompt_fits(length(), context(), remedy));
    return prompt;
  }

  Status talk(const std::string& message) {
    OUTRIDER_ASSIGN_OR_RETURN(const EncodedPrompt prompt, ask(message));
    stop_ = std::stop_source();
    interrupts_.on_interrupt([stop = stop_]() mutable { stop.request_stop(); });
    const Result<AnswerReport> report =
        generator_.answer({.prompt = prompt, .config = config_}, stop_.get_token());
    interrupts_.on_interrupt(nullptr);
    if (!report.ok()) return report.status();
    console_.end_line();
    const Finish& finish = report->finish;
    cancelled_ = finish.ending == Ending::kCancelled;
    last_stats_ = stats_block(*report);
    if (cancelled_) console_.print_error_stream(last_stats_);
    if (options_.explain) console_.print_error_stream(explanation(*report));
    if (options_.json) console_.print_line(stats_json(*report));
    OUTRIDER_RETURN_IF_ERROR(conversation_.record_answer(message, prompt, report->record.ids));
    if (report->context > 0) target_context_ = report->context;
    const std::size_t length = prompt.ids.size() + report->record.ids.size();
    if (context() > 0 && length >= static_cast<std::size_t>(context()) && !chat_.context_shift) {
      console_.on_say({Say::Level::kWarning,
                       std::string("context: the conversation fills it; ") + kContextRemedy});
    }
    OUTRIDER_RETURN_IF_ERROR(trace_.write());
    const bool failed = finish.ending == Ending::kLinkLost || finish.ending == Ending::kFailed;
    return failed ? finish.status : Status();
  }

  const AnswerOptions& options_;
  const ChatOptions& chat_;
  const AnswerConfig& config_;
  Interrupts& interrupts_;
  Console& console_;
  Generator& generator_;
  Conversation conversation_;
  TraceFile& trace_;
  std::stop_source& stop_;
  const bool interactive_ = ::isatty(STDIN_FILENO) == 1;
  const std::unique_ptr<LineEditor> editor_ =
      LineEditor::create(kPrompt, stdin, ::isatty(STDERR_FILENO) == 1 ? stderr : stdout);
  std::string last_stats_;
  Position target_context_ = 0;           // 0: none has answered yet
  std::atomic<bool> interrupted_{false};  // while a line was edited
  bool first_line_ = true;
  bool cancelled_ = false;  // the last answer was
  int exit_code_ = kExitOk;
};

}  // namespace

Result<int> chat_command(const AnswerOptions& options, const ChatOptions& chat,
                         Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(const GenerationConfig config, generation_config(options));
  if (config.chat_template == "none") {
    return invalid_argument("chat needs a chat template; for plain text use run");
  }
  std::stop_source stop;
  Console console({.color_accept = options.color_accept,
                   .show_provisional = config.answer.show_provisional,
                   .on_broken_pipe = [&] { stop.request_stop(); }});
  TraceFile trace(options.trace);
  OUTRIDER_RETURN_IF_ERROR(trace.check());
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  OUTRIDER_ASSIGN_OR_RETURN(const ChatSource source, setup->chat().wait());
  OUTRIDER_ASSIGN_OR_RETURN(ChatTemplate chat_template,
                            ChatTemplate::choose(source, setup->chat().name()));
  OUTRIDER_ASSIGN_OR_RETURN(Conversation conversation,
                            Conversation::create(setup->tokenizer(), std::move(chat_template)));
  OUTRIDER_ASSIGN_OR_RETURN(const AnswerConfig answer, setup->answer_config());
  if (setup->flash() != nullptr) trace.watch(setup->flash()->log());
  Generator generator(setup->parts(trace.observer()), console);
  return Chat(options, chat, answer, interrupts, console, generator, std::move(conversation), trace,
              stop)
      .run();
}

}  // namespace outrider
