// An answer that two levels of an elastic target share, one after the other. Stands before the
// decoding session, which knows only that a stream is over and that the next one opens at once
// (Reopen). The committed text is the state: the second level computes its keys and values anew, so
// no row sees those of another level, and the text from there on is what that level says of it.
//
// Where the switch lies at a named token, the first stream ends there; so a switched answer is
// replayed exactly, whatever was drafted.
//
// Thread rule: pure; one thread, the session's. session outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/decoding/levels/level_choice.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/session/events.h"

namespace outrider {

class LevelSwitchDecorator final : public AnswerSession {
 public:
  // After a verdict.
  struct Pace {
    std::int64_t answered = 0;  // tokens
    double tpot_ms = 0;
    TimePoint now = {};
  };
  struct Plan {
    std::optional<LevelSwitch> then = {};  // where it is known
    // Else asked after verdicts until it names the level to go on with. Empty: none.
    std::function<std::optional<std::size_t>(const Pace&)> review = {};
  };

  LevelSwitchDecorator(DecodingSession& inner, Plan plan);

  SessionActions start(TimePoint now) override;
  SessionActions handle(const SessionEvent& event, TimePoint now) override;
  TimePoint next_tick() const override { return inner_.next_tick(); }

  // Nothing: one level has answered alone.
  const std::optional<LevelSwitch>& switched() const { return switched_; }

 private:
  bool ends_first_part(const SessionEvent& event) const;
  std::optional<std::size_t> review(TimePoint now);
  void go_on_with(std::size_t level, TimePoint now);
  void take(SessionActions actions);
  void complete(Open& open) const;
  std::int64_t answered() const { return static_cast<std::int64_t>(inner_.answer().size()); }

  DecodingSession& inner_;
  const Plan plan_;
  const Position prompt_length_;
  std::optional<LevelSwitch> switched_;
  std::uint32_t epoch_ = 0;  // of the stream that is open
  // The tokens at the first verdict and its time, and the tokens at the last one.
  std::int64_t first_answered_ = 0, last_answered_ = 0;
  TimePoint first_at_{};
  SessionActions actions_;
};

}  // namespace outrider
