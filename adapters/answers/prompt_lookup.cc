// SPDX-License-Identifier: Apache-2.0
#include "adapters/answers/prompt_lookup.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr std::size_t kLongestMatch = 3;

}  // namespace

std::vector<TokenId> look_up(std::span<const TokenId> text, int gamma) {
  for (std::size_t length = kLongestMatch; length > 0; --length) {
    if (text.size() <= length) continue;
    const auto last = text.last(length);
    const auto before = text.first(text.size() - 1);  // the match itself is no earlier place
    const auto found = std::find_end(before.begin(), before.end(), last.begin(), last.end());
    if (found == before.end()) continue;
    const auto next = text.subspan(static_cast<std::size_t>(found - before.begin()) + length);
    const auto guessed = next.first(std::min(next.size(), static_cast<std::size_t>(gamma)));
    return {guessed.begin(), guessed.end()};
  }
  return {};
}

std::size_t passes_by_look_up(std::span<const TokenId> prompt, std::span<const TokenId> answer,
                              int gamma) {
  std::vector<TokenId> text(prompt.begin(), prompt.end());
  std::size_t passes = 0;
  for (std::size_t at = 0; at < answer.size(); ++passes) {
    const std::vector<TokenId> guesses = look_up(text, gamma);
    const auto rest = answer.subspan(at);
    const auto right =
        static_cast<std::size_t>(std::ranges::mismatch(guesses, rest).in1 - guesses.begin());
    const auto taken = rest.first(std::min(right + 1, rest.size()));
    text.insert(text.end(), taken.begin(), taken.end());
    at += taken.size();
  }
  return passes;
}

}  // namespace outrider
