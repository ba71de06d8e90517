// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/provisional_text.h"

#include <algorithm>
#include <utility>

#include "common/decoding/drafting/growth_policy.h"

namespace outrider {
namespace {

// The draft's likeliest guesses, at most so many, up to the first of stop_ids.
struct LikelyTokens {
  std::vector<TokenId> ids;     // before it
  std::optional<TokenId> stop;  // nothing: there is none among them
};

LikelyTokens likeliest(const MirroredTree& tree, std::size_t most,
                       std::span<const TokenId> stop_ids) {
  LikelyTokens likely;
  const auto chains = round_chains(tree, {.length = most, .branches = 1});
  if (chains.empty()) return likely;
  for (const NodeIndex node : chains.front().nodes) {
    const TokenId token = tree.node(node).token;
    if (std::ranges::find(stop_ids, token) != stop_ids.end()) {
      likely.stop = token;
      break;
    }
    likely.ids.push_back(token);
  }
  return likely;
}

}  // namespace

std::optional<Provisional> ProvisionalText::update(std::span<const TokenId> stop_ids) {
  std::vector<TokenId> tokens = likeliest(tree_, kMaxTokens, stop_ids).ids;
  if (tree_.end() == end_ && tokens == tokens_) return std::nullopt;
  end_ = tree_.end();
  tokens_ = std::move(tokens);
  return Provisional{.text = text_.preview(tokens_, false).text};
}

std::optional<Provisional> ProvisionalText::end() {
  if (std::exchange(tokens_, {}).empty()) return std::nullopt;
  return Provisional{};
}

SessionActions ProvisionalTextDecorator::decorate(SessionActions actions) {
  if (session_.finished()) return actions;
  std::optional<Provisional> shown =
      session_.decided() ? provisional_.end() : provisional_.update(session_.stop_ids());
  if (shown) actions.push_back(*std::move(shown));
  return actions;
}

DeadlineDecorator::Expected DeadlineDecorator::expected() const {
  const auto most = static_cast<std::size_t>(most_tokens());
  LikelyTokens likely = likeliest(session_.tree(), most, session_.stop_ids());
  if (likely.stop) likely.ids.push_back(*likely.stop);
  const bool by_length = static_cast<Position>(likely.ids.size()) == tokens_left();
  const bool ends = likely.stop || by_length;
  AnswerText::Update text = text_.preview(likely.ids, ends);
  const bool whole = ends || text.stopped;
  return {.text = std::move(text), .whole = whole};
}

std::optional<DraftStep> DeadlineDecorator::next_step() {
  if (is_over() || session_.speculation().draft_failed() || expected().whole) return std::nullopt;
  const RoundShape to_the_end{.length = static_cast<std::size_t>(most_tokens()), .branches = 1};
  return drafter_.grow(RoundPolicy(to_the_end), most_tokens());
}

SessionActions DeadlineDecorator::decorate(SessionActions actions, TimePoint now) {
  for (const SessionAction& action : actions) {
    const auto* emit = std::get_if<Emit>(&action);
    if (emit == nullptr) continue;
    for (const Emit::Token& token : emit->tokens) shown_ += token.text;
  }
  if (is_over() || now < due_) return actions;
  Expected more = expected();
  given_ = Given{.text = shown_ + more.text.text,
                 .whole = more.whole,
                 .verified = session_.answer().size(),
                 .at = now};
  actions.push_back(
      Provisional{.text = std::move(more.text.text), .by_deadline = true, .whole = more.whole});
  return actions;
}

}  // namespace outrider
