// The pieces of a rendered conversation, in the form of one family of templates.
//
// Thread rule: a value, of one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outrider {

enum class ChatFamily { kLlama2, kLlama3, kVicuna, kChatml, kZephyr };

// A stretch of a rendered conversation: the template's own text, or a message's.
struct ChatSegment {
  std::string text;
  bool is_template = false;
};

// Builds the segments of one conversation, in the order of the calls.
class ChatRenderer final {
 public:
  // bos, eos: the texts of the tokenizer's <s> and </s>, where the family uses them.
  ChatRenderer(ChatFamily family, std::string bos, std::string eos)
      : family_(family), bos_(std::move(bos)), eos_(std::move(eos)) {}

  void start();
  void system(std::string_view text);
  void user(std::string_view text);
  void assistant(std::string_view text);
  // What stands before an answer.
  void generation_prompt();
  // What stands between an answer and the next user's message.
  void end_turn();

  std::vector<ChatSegment> take() { return std::move(segments_); }

 private:
  void add(std::string_view text, bool is_template);
  void literal(std::string_view text) { add(text, true); }
  void message(std::string_view text) { add(text, false); }
  void header(std::string_view role, std::string_view text);
  void turn(std::string_view role, std::string_view text);
  void llama2_user(std::string_view text);

  ChatFamily family_;
  std::string bos_;
  std::string eos_;
  std::optional<std::string> system_;  // llama2: goes with the first user's message
  std::vector<ChatSegment> segments_;
};

}  // namespace outrider
