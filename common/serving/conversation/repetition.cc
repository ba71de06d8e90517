// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/repetition.h"

#include <set>

namespace outrider {

std::size_t length_before_repetition(const std::vector<TokenId>& tokens) {
  constexpr std::ptrdiff_t kGram = 8;
  std::set<std::vector<TokenId>> seen;
  for (std::size_t end = kGram; end <= tokens.size(); ++end) {
    const auto last = tokens.begin() + static_cast<std::ptrdiff_t>(end);
    if (!seen.emplace(last - kGram, last).second) return end;
  }
  return tokens.size();
}

}  // namespace outrider
