// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <iostream>
#include <memory>
#include <stop_token>
#include <string>

#include "common/cli/program.h"
#include "common/conversation/conversation.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"
#include "edge_client/main/trace_file.h"
#include "edge_client/report/answer_report.h"

namespace outrider {
namespace {

constexpr char kHelp[] =
    "Type a message, or /exit, /clear (forget the conversation), /stats (of the last answer).\n";

class Chat final {
 public:
  // stop: ends the answer in work; renewed for each.
  Chat(const AnswerOptions& options, const AnswerConfig& config, Interrupts& interrupts,
       Console& console, Generator& generator, Conversation conversation, TraceFile& trace,
       std::stop_source& stop)
      : options_(options),
        config_(config),
        interrupts_(interrupts),
        console_(console),
        generator_(generator),
        conversation_(std::move(conversation)),
        trace_(trace),
        stop_(stop) {}

  int run() {
    if (interactive_) console_.print_error_stream(kHelp);
    std::string line;
    while (next_line(line)) {
      if (line == "/exit") break;
      if (line.empty()) continue;
      if (line.starts_with("/")) {
        command(line);
      } else if (Status status = talk(line); !status.ok()) {
        console_.on_say({Say::Level::kWarning, status.to_string()});
        exit_code_ = kExitRuntime;
      }
      if (console_.broken()) return kExitRuntime;
      // Nobody asks for more.
      if (cancelled_ && (!interactive_ || interrupts_.terminated())) return kExitInterrupted;
    }
    return exit_code_;
  }

 private:
  bool next_line(std::string& line) {
    if (interactive_) console_.print_error_stream("> ");
    return static_cast<bool>(std::getline(std::cin, line));
  }

  void command(const std::string& line) {
    if (line == "/clear") {
      conversation_.clear();
    } else if (line == "/stats") {
      console_.print_error_stream(last_stats_.empty() ? "No answer yet.\n" : last_stats_);
    } else {
      console_.print_error_stream("Unknown command " + without_controls(line) + ". " + kHelp);
    }
  }

  Status talk(const std::string& message) {
    OUTRIDER_ASSIGN_OR_RETURN(const EncodedPrompt prompt, conversation_.ask(message));
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
    conversation_.record_answer(prompt, report->ids);
    OUTRIDER_RETURN_IF_ERROR(trace_.write());
    const bool failed = finish.ending == Ending::kLinkLost || finish.ending == Ending::kFailed;
    return failed ? finish.status : Status();
  }

  const AnswerOptions& options_;
  const AnswerConfig& config_;
  Interrupts& interrupts_;
  Console& console_;
  Generator& generator_;
  Conversation conversation_;
  TraceFile& trace_;
  std::stop_source& stop_;
  const bool interactive_ = ::isatty(STDIN_FILENO) == 1;
  std::string last_stats_;
  bool cancelled_ = false;  // the last answer was
  int exit_code_ = kExitOk;
};

}  // namespace

Result<int> chat_command(const AnswerOptions& options, Interrupts& interrupts) {
  OUTRIDER_ASSIGN_OR_RETURN(const GenerationConfig config, generation_config(options));
  if (options.chat_template == "none") {
    return invalid_argument("chat needs a chat template; for plain text use run");
  }
  std::stop_source stop;
  Console console({.color_accept = options.color_accept,
                   .show_provisional = config.answer.show_provisional,
                   .on_broken_pipe = [&] { stop.request_stop(); }});
  TraceFile trace(options.trace);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(config));
  OUTRIDER_ASSIGN_OR_RETURN(Conversation conversation,
                            Conversation::create(setup->tokenizer(), options.chat_template));
  if (setup->flash() != nullptr) trace.watch(setup->flash()->log());
  Generator generator(setup->parts(trace.observer()), console);
  return Chat(options, config.answer, interrupts, console, generator, std::move(conversation),
              trace, stop)
      .run();
}

}  // namespace outrider
