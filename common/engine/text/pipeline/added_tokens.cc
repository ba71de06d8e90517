// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/added_tokens.h"

#include <algorithm>
#include <set>

#include "common/engine/text/pipeline/unicode.h"

namespace outrider {
namespace {

// Bounds the work per byte of text.
constexpr std::size_t kMaxContentBytes = 512;

bool lies_within(Span inner, const std::vector<Span>& spans) {
  const auto after = std::upper_bound(spans.begin(), spans.end(), inner.begin,
                                      [](std::size_t at, const Span& s) { return at < s.begin; });
  return after != spans.begin() && inner.end <= std::prev(after)->end;
}

}  // namespace

void AddedTokens::Trie::add(std::string_view content, std::int32_t index) {
  std::uint64_t node = 0;
  if (!content.empty()) starts[static_cast<std::uint8_t>(content.front())] = true;
  for (const char c : content) {
    const auto next = static_cast<std::int32_t>(token.size());
    const auto [place, added] = child.emplace(node << 8 | static_cast<std::uint8_t>(c), next);
    if (added) token.push_back(-1);
    node = static_cast<std::uint64_t>(place->second);
  }
  token[node] = index;
}

std::int32_t AddedTokens::Trie::match(std::string_view text, std::size_t& length) const {
  std::int32_t best = -1;
  if (!starts[static_cast<std::uint8_t>(text.front())]) return best;
  std::uint64_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto next = child.find(node << 8 | static_cast<std::uint8_t>(text[i]));
    if (next == child.end()) break;
    node = static_cast<std::uint64_t>(next->second);
    if (token[node] >= 0) {
      best = token[node];
      length = i + 1;
    }
  }
  return best;
}

Result<AddedTokens> AddedTokens::create(std::vector<AddedToken> tokens,
                                        const Normalizer& normalizer) {
  AddedTokens result;
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  result.tokens_ = std::move(tokens);
  std::set<std::string_view> contents;
  for (std::size_t i = 0; i < result.tokens_.size(); ++i) {
    const AddedToken& token = result.tokens_[i];
    const std::string name = "added_tokens: '" + token.content.substr(0, 80) + "'";
    if (token.content.empty() || token.content.size() > kMaxContentBytes) {
      return data_loss(name + ": content of " + std::to_string(token.content.size()) +
                       " bytes, 1 to " + std::to_string(kMaxContentBytes) + " allowed");
    }
    if (!contents.insert(token.content).second) return data_loss(name + " appears twice");
    if (i > 0 && result.tokens_[i - 1].id == token.id) {
      return data_loss(name + ": id " + std::to_string(token.id) + " appears twice");
    }
    const auto index = static_cast<std::int32_t>(i);
    if (token.normalized) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::string content, normalizer.apply(token.content));
      result.after_normalization_.add(content, index);
    } else {
      result.plain_.add(token.content, index);
    }
  }
  return result;
}

std::optional<Span> AddedTokens::extent(const AddedToken& token, Span found, std::string_view text,
                                        std::size_t done) const {
  const std::string_view before = text.substr(0, found.begin);
  const std::string_view after = text.substr(found.end);
  if (token.single_word) {
    if (!before.empty() && is_word_character(last_character(before))) return std::nullopt;
    if (!after.empty() && is_word_character(first_character(after))) return std::nullopt;
  }
  if (token.lstrip) found.begin = std::max(done, found.begin - trailing_white_space(before));
  if (token.rstrip) found.end += leading_white_space(after);
  return found;
}

std::vector<TextPart> AddedTokens::cut(std::string_view text, const std::vector<Span>& trusted,
                                       bool normalized) const {
  const Trie& trie = normalized ? after_normalization_ : plain_;
  std::vector<TextPart> parts;
  std::size_t done = 0;
  const auto text_until = [&](std::size_t end) {
    if (done < end) parts.push_back({{done, end}, -1});
  };
  if (trie.token.size() > 1) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = 1;
      const std::int32_t index = trie.match(text.substr(at), length);
      const Span found{at, at + length};
      at = found.end;
      if (index < 0) continue;
      const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
      if (token.special && !lies_within(found, trusted)) continue;
      const std::optional<Span> taken = extent(token, found, text, done);
      if (!taken) continue;
      text_until(taken->begin);
      parts.push_back({*taken, token.id});
      done = at = taken->end;
    }
  }
  text_until(text.size());
  return parts;
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto place =
      std::lower_bound(tokens_.begin(), tokens_.end(), id,
                       [](const AddedToken& token, TokenId wanted) { return token.id < wanted; });
  return place != tokens_.end() && place->id == id ? &*place : nullptr;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto place = std::find_if(tokens_.begin(), tokens_.end(), [&](const AddedToken& token) {
    return token.content == content;
  });
  return place != tokens_.end() ? &*place : nullptr;
}

}  // namespace outrider
