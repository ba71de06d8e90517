// Provisional text: how the text would continue if the draft's likeliest guesses were right. It is
// shown to users who ask for it, and replaced where the target decides otherwise; or it is given
// once, by a deadline, to who needs an answer by then (docs/elastic.md).
//
// The decorators stand before a session, or before what already stands before it (failover), and
// add Provisional actions behind the others.
//
// Thread rule: one thread, the session's. Ownership: what they refer to outlives them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/decoding/drafting/drafter.h"
#include "common/decoding/tree/mirrored_tree.h"
#include "common/serving/conversation/answer_text.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/session/events.h"

namespace outrider {

class ProvisionalText final {
 public:
  // At most this many tokens are shown.
  static constexpr std::size_t kMaxTokens = 64;

  ProvisionalText(const MirroredTree& tree, const AnswerText& text) : tree_(tree), text_(text) {}

  // The text to show from now on, if it has changed. It ends before a token of stop_ids.
  std::optional<Provisional> update(std::span<const TokenId> stop_ids);
  // The answer is over: takes back what is shown.
  std::optional<Provisional> end();

 private:
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

// Gives the answer by a deadline: what is committed then, and how it goes on if the draft is right.
// Until then the draft goes on towards the answer's end before it drafts ahead for other verdicts,
// also where nothing is speculated. What it drafts so is part of the tree, as all that it drafts.
class DeadlineDecorator final : public AnswerSession {
 public:
  // At most this many tokens beyond the committed text.
  static constexpr Position kMaxTokens = 128;
  // How long before an answer's deadline it is given, so that it has arrived by then.
  static constexpr Duration kDelivery = std::chrono::milliseconds(5);

  // The whole answer at that time: shown, and then how it would continue.
  struct Given {
    std::string text;
    bool whole = false;        // the draft came to the answer's end
    std::size_t verified = 0;  // tokens of the answer that were committed
    TimePoint at = {};
  };

  // drafter: the session's.
  DeadlineDecorator(AnswerSession& inner, DecodingSession& session, Drafter& drafter,
                    const AnswerText& text, TimePoint due)
      : inner_(inner), session_(session), drafter_(drafter), text_(text), due_(due) {
    session_.draft_first([this] { return next_step(); });
  }
  ~DeadlineDecorator() override { session_.draft_first({}); }

  SessionActions start(TimePoint now) override { return decorate(inner_.start(now), now); }
  SessionActions handle(const SessionEvent& event, TimePoint now) override {
    return decorate(inner_.handle(event, now), now);
  }
  TimePoint next_tick() const override {
    return is_over() ? inner_.next_tick() : std::min(inner_.next_tick(), due_);
  }

  // Nothing: the answer was whole by then.
  const std::optional<Given>& given() const { return given_; }

 private:
  bool is_over() const { return given_ || session_.decided(); }
  struct Expected {
    AnswerText::Update text;
    bool whole = false;  // it ends there
  };
  Expected expected() const;
  std::optional<DraftStep> next_step();
  SessionActions decorate(SessionActions actions, TimePoint now);
  Position tokens_left() const { return session_.end_position() - session_.tree().end(); }
  Position most_tokens() const { return std::min(tokens_left(), kMaxTokens); }

  AnswerSession& inner_;
  DecodingSession& session_;
  Drafter& drafter_;
  const AnswerText& text_;
  const TimePoint due_;
  std::string shown_;  // the answer's committed text
  std::optional<Given> given_;
};

}  // namespace outrider
