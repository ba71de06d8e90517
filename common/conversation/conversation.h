// A conversation as ids: what a model gets to answer, turn by turn.
//
//   Conversation chat = *Conversation::create(tokenizer, "");    // the tokenizer's own template
//   const EncodedPrompt prompt = *chat.ask("Hello");
//   chat.record_answer(prompt, answer_ids);
//   const EncodedPrompt next = *chat.ask("And now?");            // begins with all ids before
//
// Later prompts append to the ids of earlier ones, so that caches of both sides stay valid.
//
// Thread rule: one object, one thread. The tokenizer outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/conversation/chat_template.h"
#include "common/text/tokenizer.h"

namespace outrider {

// Text that a model goes on with.
struct EncodedPrompt {
  std::vector<TokenId> ids;
  std::vector<TokenId> stop_ids;  // that end the answer, beside the target's own
};

// A single prompt. A model that was trained on conversations gets it as the first message of one:
// if `template_name` names a template, or is empty and the tokenizer has one. "none": never.
Result<EncodedPrompt> encode_prompt(const Tokenizer& tokenizer, const std::string& text,
                                    std::string_view template_name);

class Conversation final {
 public:
  // template_name and errors: as ChatTemplate::choose.
  static Result<Conversation> create(const Tokenizer& tokenizer, std::string_view template_name);

  // The ids up to where the assistant answers the user's `message`.
  Result<EncodedPrompt> ask(const std::string& message) const;

  // The assistant answered this prompt, which ask() returned last.
  void record_answer(const EncodedPrompt& prompt, const std::vector<TokenId>& answer);

  // Forgets all messages.
  void clear() { ids_.clear(); }

 private:
  Conversation(const Tokenizer& tokenizer, ChatTemplate chat, TokenId end_of_turn)
      : tokenizer_(&tokenizer), chat_(std::move(chat)), end_of_turn_(end_of_turn) {}

  const Tokenizer* tokenizer_;
  ChatTemplate chat_;
  TokenId end_of_turn_;
  std::vector<TokenId> ids_;  // of all turns so far
};

}  // namespace outrider
