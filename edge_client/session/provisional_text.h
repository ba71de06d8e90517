// What the text would go on with if the draft's likeliest guesses were right: shown to people who
// want to see it, and taken back where the target decides otherwise.
//
// Thread rule: owned by the session, as is what it refers to. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/conversation/answer_text.h"
#include "common/tree/mirrored_tree.h"
#include "edge_client/session/events.h"

namespace outrider {

class ProvisionalText final {
 public:
  // So many tokens are shown at most.
  static constexpr std::size_t kMaxTokens = 64;

  ProvisionalText(const MirroredTree& tree, const AnswerText& text) : tree_(tree), text_(text) {}

  // What is to be shown from now on, if that has changed; it ends before a token of stop_ids.
  std::optional<Provisional> update(std::span<const TokenId> stop_ids);
  // The same of an answer that is over: nothing.
  std::optional<Provisional> end();

 private:
  std::vector<TokenId> likeliest(std::span<const TokenId> stop_ids) const;

  const MirroredTree& tree_;
  const AnswerText& text_;
  Position end_ = 0;             // of the text when `tokens_` was shown
  std::vector<TokenId> tokens_;  // shown behind it
};

}  // namespace outrider
