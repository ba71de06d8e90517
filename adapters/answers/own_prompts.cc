// SPDX-License-Identifier: Apache-2.0
#include "adapters/answers/own_prompts.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <unordered_set>

namespace outrider {
namespace {

constexpr std::ptrdiff_t kFewestWords = 3;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_message(const std::string& text) {
  if (text.find("\xef\xbf\xbd") != std::string::npos) return false;  // bytes that are no UTF-8
  std::istringstream words(text);
  return std::distance(std::istream_iterator<std::string>(words), {}) >= kFewestWords;
}

}  // namespace

Result<std::vector<TokenId>> opening_of_user_turn(const ChatTemplate& chat,
                                                  const Tokenizer& tokenizer) {
  const auto with = [&](const char* message) {
    return chat.encode_chat(tokenizer, {{ChatRole::kUser, message}});
  };
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, with("x"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> others, with("8"));
  ids.erase(std::ranges::mismatch(ids, others).in1, ids.end());
  return ids;
}

Result<std::vector<std::string>> messages_of(const std::vector<std::vector<TokenId>>& written,
                                             std::int64_t max_tokens, const Tokenizer& tokenizer) {
  std::vector<std::string> messages;
  std::unordered_set<std::string> seen;
  for (const std::vector<TokenId>& ids : written) {
    if (std::ssize(ids) >= max_tokens) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(ids));
    std::string message = trimmed(text);
    if (is_message(message) && seen.insert(message).second) messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace outrider
