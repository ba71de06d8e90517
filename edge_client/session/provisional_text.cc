// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/provisional_text.h"

#include <algorithm>
#include <utility>

#include "common/drafting/growth_policy.h"

namespace outrider {

std::vector<TokenId> ProvisionalText::likeliest(std::span<const TokenId> stop_ids) const {
  const auto chains = round_chains(tree_, {.length = kMaxTokens, .branches = 1});
  std::vector<TokenId> tokens;
  if (chains.empty()) return tokens;
  for (const NodeIndex node : chains.front().nodes) {
    const TokenId token = tree_.node(node).token;
    if (std::ranges::find(stop_ids, token) != stop_ids.end()) break;
    tokens.push_back(token);
  }
  return tokens;
}

std::optional<Provisional> ProvisionalText::update(std::span<const TokenId> stop_ids) {
  std::vector<TokenId> tokens = likeliest(stop_ids);
  if (tree_.end() == end_ && tokens == tokens_) return std::nullopt;
  end_ = tree_.end();
  tokens_ = std::move(tokens);
  return Provisional{text_.preview(tokens_)};
}

std::optional<Provisional> ProvisionalText::end() {
  if (std::exchange(tokens_, {}).empty()) return std::nullopt;
  return Provisional{};
}

SessionActions ProvisionalTextDecorator::decorate(SessionActions actions) {
  if (session_.finished()) return actions;
  std::optional<Provisional> shown =
      session_.decided() ? provisional_.end() : provisional_.update(session_.opened().stop_ids);
  if (shown) actions.push_back(*std::move(shown));
  return actions;
}

}  // namespace outrider
