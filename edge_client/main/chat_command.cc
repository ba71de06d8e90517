// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "common/cli/program.h"
#include "common/conversation/chat_template.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"
#include "edge_client/main/generator.h"
#include "edge_client/metrics/predraft_report.h"

namespace outrider {
namespace {

constexpr char kHelp[] =
    "Type a message, or /exit, /clear (forget the conversation), /stats (of the last answer).\n";

// The conversation as ids: later turns append to what both sides have in their caches.
class Conversation final {
 public:
  Conversation(const Tokenizer& tokenizer, ChatTemplate chat)
      : tokenizer_(tokenizer), chat_(std::move(chat)) {}

  void clear() { ids_.clear(); }

  // The ids up to where the assistant answers `message`.
  Result<std::vector<TokenId>> ask(const std::string& message) {
    if (ids_.empty()) return chat_.encode_chat(tokenizer_, {{ChatRole::kUser, message}});
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId end, chat_.end_of_turn(tokenizer_));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> next,
                              chat_.encode_next_turn(tokenizer_, message, ids_.back() == end));
    std::vector<TokenId> prompt = ids_;
    prompt.insert(prompt.end(), next.begin(), next.end());
    return prompt;
  }

  void take_answer(const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer) {
    ids_ = prompt;
    ids_.insert(ids_.end(), answer.begin(), answer.end());
  }

 private:
  const Tokenizer& tokenizer_;
  const ChatTemplate chat_;
  std::vector<TokenId> ids_;
};

class Chat final {
 public:
  Chat(const AnswerOptions& options, Interrupts& interrupts, Console& console, Generator& generator,
       ChatTemplate chat, TokenId end_of_turn)
      : options_(options),
        interrupts_(interrupts),
        console_(console),
        generator_(generator),
        conversation_(generator.tokenizer(), std::move(chat)),
        end_of_turn_(end_of_turn) {}

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
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, conversation_.ask(message));
    interrupts_.on_interrupt([this] { generator_.cancel(); });
    const Result<AnswerReport> report =
        generator_.answer({.prompt = prompt, .stop_ids = {end_of_turn_}});
    interrupts_.on_interrupt(nullptr);
    if (!report.ok()) return report.status();
    console_.end_line();
    const Finish& finish = report->finish;
    cancelled_ = finish.ending == Ending::kCancelled;
    last_stats_ = stats_block(*report);
    if (cancelled_) console_.print_error_stream(last_stats_);
    if (options_.explain) console_.print_error_stream(explain_block(report->stats));
    if (options_.json) console_.print_line(stats_json(*report));
    conversation_.take_answer(prompt, report->ids);
    OUTRIDER_RETURN_IF_ERROR(generator_.write_trace());
    const bool failed = finish.ending == Ending::kLinkLost || finish.ending == Ending::kFailed;
    return failed ? finish.status : Status();
  }

  const AnswerOptions& options_;
  Interrupts& interrupts_;
  Console& console_;
  Generator& generator_;
  Conversation conversation_;
  const TokenId end_of_turn_;
  const bool interactive_ = ::isatty(STDIN_FILENO) == 1;
  std::string last_stats_;
  bool cancelled_ = false;  // the last answer was
  int exit_code_ = kExitOk;
};

}  // namespace

Result<int> chat_command(const AnswerOptions& options, Interrupts& interrupts) {
  OUTRIDER_RETURN_IF_ERROR(validate(options));
  if (options.chat_template == "none") {
    return invalid_argument("chat needs a chat template; for plain text use run");
  }
  Generator* running = nullptr;
  Console console(
      {.color_accept = options.color_accept, .on_broken_pipe = [&] { running->cancel(); }});
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Generator> generator,
                            Generator::create(options, console));
  running = generator.get();
  const Tokenizer& tokenizer = generator->tokenizer();
  OUTRIDER_ASSIGN_OR_RETURN(ChatTemplate chat,
                            ChatTemplate::choose(tokenizer, options.chat_template));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end_of_turn, chat.end_of_turn(tokenizer));
  return Chat(options, interrupts, console, *generator, std::move(chat), end_of_turn).run();
}

}  // namespace outrider
