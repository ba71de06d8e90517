// Conversations in the form a model was trained on.
//
// The families are built in: llama2, llama3, vicuna, chatml (Qwen and others), zephyr (TinyLlama).
// A model's own Jinja text is only searched for the markers of a family and for the system message
// that it says where a conversation has none. Renderings equal
// transformers' apply_chat_template of the family's published template; Llama 3.1's date header is
// left out, as in Llama 3. The markers of a template become special tokens; the same markers in a
// message stay text, so no message can end its turn or begin another.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/conversation/chat_renderer.h"
#include "common/text/tokenizer.h"

namespace outrider {

enum class ChatRole { kSystem, kUser, kAssistant };

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content;
};

class ChatTemplate final {
 public:
  using Family = ChatFamily;

  // By `name` (--chat-template): a family's, or that of one of the tokenizer's own templates. If it
  // is empty, the tokenizer's only or default one. The family of a template is told by its markers.
  // Errors: kInvalidArgument for an unknown name, kNotFound if there is no template
  // or none that we know; both list the names.
  static Result<ChatTemplate> choose(const Tokenizer& tokenizer, std::string_view name);

  Family family() const { return family_; }
  std::string_view name() const;

  // Messages: at most one from the system, first; then user and assistant by turns. Errors:
  // kInvalidArgument for another order, kFailedPrecondition if the tokenizer lacks a token that
  // the template needs.
  Result<std::vector<ChatSegment>> render(const Tokenizer& tokenizer,
                                          const std::vector<ChatMessage>& messages,
                                          bool add_generation_prompt) const;

  // The ids of render(); the template says whether they begin with <s>.
  Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer,
                                           const std::vector<ChatMessage>& messages,
                                           bool add_generation_prompt = true) const;

  // What follows the ids of an answer so that the user's next message can be answered: the end of
  // the assistant's turn, the message, and the next generation prompt. The KV of all earlier ids
  // stays valid. `answer_ended`: the answer's last id is already end_of_turn().
  Result<std::vector<TokenId>> encode_next_turn(const Tokenizer& tokenizer,
                                                std::string_view user_message,
                                                bool answer_ended) const;

  // The token with which the model ends its turn; generation stops there.
  Result<TokenId> end_of_turn(const Tokenizer& tokenizer) const;

 private:
  ChatTemplate(Family family, std::string default_system)
      : family_(family), default_system_(std::move(default_system)) {}

  Family family_;
  std::string default_system_;  // said if the conversation has no system message; may be empty
};

}  // namespace outrider
