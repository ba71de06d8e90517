// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/conversation.h"

#include <utility>

namespace outrider {

Result<EncodedPrompt> encode_prompt(const Tokenizer& tokenizer, const std::string& text,
                                    std::string_view template_name) {
  const bool has_template = !template_name.empty() || !tokenizer.chat_templates().empty();
  if (template_name == "none" || !has_template) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer.encode(text));
    return EncodedPrompt{.ids = std::move(ids), .stop_ids = {}};
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Conversation chat,
                            Conversation::create(tokenizer, template_name));
  return chat.ask(text);
}

Result<Conversation> Conversation::create(const Tokenizer& tokenizer,
                                          std::string_view template_name) {
  OUTRIDER_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::choose(tokenizer, template_name));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end_of_turn, chat.end_of_turn(tokenizer));
  return Conversation(tokenizer, std::move(chat), end_of_turn);
}

Result<EncodedPrompt> Conversation::ask(const std::string& message) const {
  EncodedPrompt prompt{.ids = ids_, .stop_ids = {end_of_turn_}};
  if (ids_.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(prompt.ids,
                              chat_.encode_chat(*tokenizer_, {{ChatRole::kUser, message}}));
    return prompt;
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<TokenId> next,
      chat_.encode_next_turn(*tokenizer_, message, ids_.back() == end_of_turn_));
  prompt.ids.insert(prompt.ids.end(), next.begin(), next.end());
  return prompt;
}

void Conversation::record_answer(const EncodedPrompt& prompt, const std::vector<TokenId>& answer) {
  ids_ = prompt.ids;
  ids_.insert(ids_.end(), answer.begin(), answer.end());
}

}  // namespace outrider
