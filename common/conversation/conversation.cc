// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/conversation.h"

#include <algorithm>
#include <utility>

#include "common/conversation/answer_length.h"

namespace outrider {
namespace {

// Removes `text` from the front. False if they do not begin with it; then they are unusable.
bool drop_prefix(std::vector<ChatSegment>& segments, std::string_view text) {
  for (ChatSegment& segment : segments) {
    const std::size_t length = std::min(text.size(), segment.text.size());
    if (!text.starts_with(std::string_view(segment.text).substr(0, length))) return false;
    segment.text.erase(0, length);
    text.remove_prefix(length);
  }
  return text.empty();
}

}  // namespace

Status check_text_fits(const Tokenizer& tokenizer, std::size_t bytes, Position context) {
  if (context <= 0) return {};
  return check_prompt_fits(static_cast<Position>(tokenizer.fewest_tokens(bytes)), context,
                           "shorten the prompt", "at least ");
}

bool has_chat_template(const ChatSource& source, std::string_view template_name) {
  return !template_name.empty() || !source.chosen.empty() || !source.templates.empty();
}

Result<EncodedPrompt> encode_prompt(const Tokenizer& tokenizer, const ChatSource& source,
                                    const std::string& text, std::string_view template_name) {
  if (template_name == "none" || !has_chat_template(source, template_name)) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer.encode(text));
    return EncodedPrompt{.ids = std::move(ids), .stop_ids = {}};
  }
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(source, template_name));
  return encode_messages(tokenizer, chat, {{ChatRole::kUser, text}});
}

Result<EncodedPrompt> encode_messages(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                      const std::vector<ChatMessage>& messages,
                                      const Json& variables, Position context) {
  EncodedPrompt prompt{.ids = {}, .stop_ids = {}, .template_hash = chat.hash()};
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<ChatSegment> segments,
                            chat.render(messages, true, variables));
  std::size_t bytes = 0;
  for (const ChatSegment& segment : segments) bytes += segment.text.size();
  OUTRIDER_RETURN_IF_ERROR(check_text_fits(tokenizer, bytes, context));
  OUTRIDER_ASSIGN_OR_RETURN(prompt.ids, encode_segments(tokenizer, segments));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end_of_turn, chat.end_of_turn(tokenizer));
  prompt.stop_ids = {end_of_turn};
  return prompt;
}

Result<Conversation> Conversation::create(const Tokenizer& tokenizer, ChatTemplate chat) {
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end_of_turn, chat.end_of_turn(tokenizer));
  return Conversation(tokenizer, std::move(chat), end_of_turn);
}

Result<EncodedPrompt> Conversation::ask(const std::string& message) const {
  std::vector<ChatMessage> messages = messages_;
  messages.push_back({ChatRole::kUser, message});
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<ChatSegment> whole, chat_.render(messages, true));
  EncodedPrompt prompt{.ids = {}, .stop_ids = {end_of_turn_}, .template_hash = chat_.hash()};
  std::vector<ChatSegment> rest = whole;
  if (!ids_.empty() && drop_prefix(rest, written_)) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> next, encode_segments(*tokenizer_, rest));
    // After a special token the encoding does not depend on the text before it.
    if (!next.empty() && tokenizer_->is_special(next.front())) {
      prompt.ids = ids_;
      const bool ended = ids_.back() == end_of_turn_ && next.front() == end_of_turn_;
      prompt.ids.insert(prompt.ids.end(), next.begin() + (ended ? 1 : 0), next.end());
      return prompt;
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(prompt.ids, encode_segments(*tokenizer_, whole));
  return prompt;
}

bool Conversation::drop_oldest_turn() {
  if (messages_.empty()) return false;
  messages_.erase(messages_.begin(), messages_.begin() + 2);
  ids_.clear();
  written_.clear();
  return true;
}

Status Conversation::record_answer(const std::string& message, const EncodedPrompt& prompt,
                                   const std::vector<TokenId>& answer) {
  messages_.push_back({ChatRole::kUser, message});
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<ChatSegment> segments, chat_.render(messages_, true));
  OUTRIDER_ASSIGN_OR_RETURN(std::string text, tokenizer_->decode(answer, /*skip_special=*/true));
  const bool ended = !answer.empty() && answer.back() == end_of_turn_;
  const std::vector<TokenId> body(answer.begin(), answer.end() - (ended ? 1 : 0));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string made, tokenizer_->decode(body, false));
  written_.clear();
  for (const ChatSegment& segment : segments) written_ += segment.text;
  written_ += made;
  messages_.push_back({ChatRole::kAssistant, std::move(text)});
  ids_ = prompt.ids;
  ids_.insert(ids_.end(), answer.begin(), answer.end());
  return {};
}

}  // namespace outrider
