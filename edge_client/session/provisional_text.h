// Provisional text: how the text would continue if the draft's likeliest guesses were right. It is
// shown to users who ask for it, and replaced where the target decides otherwise.
//
// The decorator stands before a session, or before what already stands before it (failover), and
// adds Provisional actions behind the others.
//
// Thread rule: one thread, the session's. Ownership: what they refer to outlives them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/conversation/answer_text.h"
#include "common/tree/mirrored_tree.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/session/events.h"

namespace outrider {

class ProvisionalText final {
 public:
  // At most this many tokens are shown.
  static constexpr std::size_t kMaxTokens = 64;

  ProvisionalText(const MirroredTree& tree, const AnswerText& text) : tree_(tree), text_(text) {}

  // What to show from now on, if that has changed. It ends before a token of stop_ids.
  std::optional<Provisional> update(std::span<const TokenId> stop_ids);
  // The answer is over: takes back what is shown.
  std::optional<Provisional> end();

 private:
  std::vector<TokenId> likeliest(std::span<const TokenId> stop_ids) const;

  const MirroredTree& tree_;
  const AnswerText& text_;
  Position end_ = 0;             // of the committed text when `tokens_` was shown
  std::vector<TokenId> tokens_;  // shown after it
};

class ProvisionalTextDecorator final : public AnswerSession {
 public:
  // inner: the session itself, or what wraps it.
  ProvisionalTextDecorator(AnswerSession& inner, const DecodingSession& session,
                           const AnswerText& text)
      : inner_(inner), session_(session), provisional_(session.tree(), text) {}

  SessionActions start(TimePoint now) override { return decorate(inner_.start(now)); }
  SessionActions handle(const SessionEvent& event, TimePoint now) override {
    return decorate(inner_.handle(event, now));
  }
  TimePoint next_tick() const override { return inner_.next_tick(); }

 private:
  SessionActions decorate(SessionActions actions);

  AnswerSession& inner_;
  const DecodingSession& session_;
  ProvisionalText provisional_;
};

}  // namespace outrider
