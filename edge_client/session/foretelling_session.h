// A session that also tells what the text may go on with: as the one that it stands before, with
// Provisional actions behind the others.
//
// Thread rule: as answer_brain.h. Ownership: what it refers to outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "edge_client/session/answer_brain.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/session/events.h"
#include "edge_client/session/provisional_text.h"

namespace outrider {

class ForetellingSession final : public AnswerBrain {
 public:
  // brain: the session itself, or what stands before it.
  ForetellingSession(AnswerBrain& brain, const DecodingSession& session, ProvisionalText& text)
      : brain_(brain), session_(session), text_(text) {}

  SessionActions start(TimePoint now) override { return foretell(brain_.start(now)); }
  SessionActions handle(const SessionEvent& event, TimePoint now) override {
    return foretell(brain_.handle(event, now));
  }
  TimePoint next_tick() const override { return brain_.next_tick(); }

 private:
  SessionActions foretell(SessionActions actions);

  AnswerBrain& brain_;
  const DecodingSession& session_;
  ProvisionalText& text_;
};

}  // namespace outrider
