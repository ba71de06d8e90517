// An answer that levels of an elastic target share, one after the other. Stands before the
// decoding session, which knows only that a stream is over and that the next one opens at once
// (Reopen). The committed text is the state: the next level computes its keys and values anew, so
// no row sees those of another level, and the text from there on is what that level says of it.
//
// A verdict is cut behind the token at which another level begins (level_track.h), so the text is
// the same whatever was drafted; and where that token was named, the stream ends there.
//
// Thread rule: pure; one thread, the session's. session outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/decoding/levels/level_choice.h"
#include "common/decoding/levels/level_track.h"
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
    LevelTrack track;
    // Asked after verdicts until it names a smaller level to go on with, or the answer has left a
    // loop: from there on none is small enough. Empty: nobody is.
    std::function<std::optional<std::size_t>(const Pace&)> review = {};
  };

  LevelSwitchDecorator(DecodingSession& inner, Plan plan);

  SessionActions start(TimePoint now) override;
  SessionActions handle(const SessionEvent& event, TimePoint now) override;
  TimePoint next_tick() const override { return inner_.next_tick(); }

  // None: one level has answered alone.
  const std::vector<LevelSwitch>& switches() const { return track_.switches(); }

 private:
  std::optional<std::size_t> take_verdict(const SessionEvent& event, TimePoint now);
  std::optional<std::size_t> review(TimePoint now);
  void go_on_with(std::size_t level, TimePoint now);
  void take(SessionActions actions);
  void complete(Open& open) const;
  std::int64_t answered() const { return static_cast<std::int64_t>(inner_.answer().size()); }

  DecodingSession& inner_;
  LevelTrack track_;
  const std::function<std::optional<std::size_t>(const Pace&)> review_;
  const Position prompt_length_;
  std::uint32_t epoch_ = 0;  // of the stream that is open
  // The tokens at the first verdict and its time, and the tokens at the last one.
  std::int64_t first_answered_ = 0, last_answered_ = 0;
  TimePoint first_at_{};
  SessionActions actions_;
};

}  // namespace outrider
