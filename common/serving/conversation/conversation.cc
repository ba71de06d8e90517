// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/conversation.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "common/serving/conversation/answer_length.h"

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

// Whether a special token's name has one of these words, as <|image_pad|> and [IMG] have.
bool stands_for_media(std::string_view token) {
  constexpr std::array<std::string_view, 8> kWords = {"image", "images", "img",    "video",
                                                      "audio", "vision", "speech", "sound"};
  std::string word;
  for (std::size_t i = 0; i <= token.size(); ++i) {
    const char c = i < token.size() ? token[i] : ' ';
    const bool is_upper = c >= 'A' && c <= 'Z';
    if (is_upper || (c >= 'a' && c <= 'z')) {
      word += is_upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (std::ranges::find(kWords, std::exchange(word, {})) != kWords.end()) {
      return true;
    }
  }
  return false;
}

// Adds the texts of the special tokens among the ids that stand for media. False: there are none.
bool collect_media(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                   std::set<std::string, std::less<>>& found) {
  const std::size_t before = found.size();
  for (const TokenId id : ids) {
    if (!tokenizer.is_special(id)) continue;
    const Result<std::string_view> token = tokenizer.token_bytes(id);
    if (token.ok() && stands_for_media(*token)) found.emplace(*token);
  }
  return found.size() > before;
}

// The text, trusted except these.
std::vector<TrustedText> trust_all_but(const std::set<std::string, std::less<>>& untrusted,
                                       std::string_view text) {
  std::vector<TrustedText> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    // The longest comes last of those that begin alike.
    const auto found = std::ranges::find_if(
        untrusted.rbegin(), untrusted.rend(),
        [&](const std::string& each) { return text.substr(at).starts_with(each); });
    if (found == untrusted.rend()) {
      ++at;
      continue;
    }
    if (at > begin) parts.push_back({text.substr(begin, at - begin), true});
    parts.push_back({text.substr(at, found->size()), false});
    begin = at += found->size();
  }
  if (begin < text.size()) parts.push_back({text.substr(begin), true});
  return parts;
}

// The ids between those that frame them, of which those that are there already are left out.
std::vector<TokenId> framed(const Tokenizer& tokenizer, std::vector<TokenId> ids) {
  const std::vector<TokenId>& prefix = tokenizer.prefix();
  const std::vector<TokenId>& suffix = tokenizer.suffix();
  const bool begins =
      std::ranges::equal(std::span(ids).first(std::min(ids.size(), prefix.size())), prefix);
  if (!begins) ids.insert(ids.begin(), prefix.begin(), prefix.end());
  const bool ends =
      std::ranges::equal(std::span(ids).last(std::min(ids.size(), suffix.size())), suffix);
  if (!ends) ids.insert(ids.end(), suffix.begin(), suffix.end());
  return ids;
}

}  // namespace

Status check_text_fits(const Tokenizer& tokenizer, std::size_t bytes, Position context) {
  if (context <= 0) return {};
  return check_prompt_fits(static_cast<Position>(tokenizer.fewest_tokens(bytes)), context,
                           "shorten the prompt", "at least ");
}

Result<std::vector<TokenId>> encode_raw(const Tokenizer& tokenizer, std::string_view text,
                                        const RawOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                            tokenizer.encode(text, {.add_special_tokens = false,
                                                    .parse_special = options.parse_special}));
  std::set<std::string, std::less<>> media;
  while (options.parse_special && collect_media(tokenizer, ids, media)) {
    OUTRIDER_ASSIGN_OR_RETURN(ids, tokenizer.encode(trust_all_but(media, text), false));
  }
  return options.add_special ? framed(tokenizer, std::move(ids)) : ids;
}

bool has_chat_template(const ChatSource& source, std::string_view template_name) {
  return !template_name.empty() || !source.chosen.empty() || !source.templates.empty();
}

Result<EncodedPrompt> encode_prompt(const Tokenizer& tokenizer, const ChatSource& source,
                                    const std::string& text, std::string_view template_name,
                                    const RawOptions& raw) {
  if (template_name == "none" || !has_chat_template(source, template_name)) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, encode_raw(tokenizer, text, raw));
    return EncodedPrompt{.ids = std::move(ids), .stop_ids = {}};
  }
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(source, template_name));
  return encode_messages(tokenizer, chat, {{ChatRole::kUser, text}});
}

Result<EncodedPrompt> encode_messages(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                      const std::vector<ChatMessage>& messages,
                                      const nlohmann::ordered_json& variables, Position context) {
  EncodedPrompt prompt{.ids = {}, .stop_ids = {}, .template_hash = chat.hash()};
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<ChatSegment> segments,
                            chat.render(messages, true, variables));
  std::size_t bytes = 0;
  for (const ChatSegment& segment : segments) bytes += segment.text.size();
  OUTRIDER_RETURN_IF_ERROR(check_text_fits(tokenizer, bytes, context));
  OUTRIDER_ASSIGN_OR_RETURN(prompt.ids, encode_segments(tokenizer, segments));
  // The end of a message's own text is no mark of the template.
  if (!segments.empty() && segments.back().is_template) prompt.text_end = segments.back().text;
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
