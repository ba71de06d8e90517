// The link to the verifier over an answer: which stream there is, and when to open the next one, to
// give up, or to stop waiting for the end of the last one.
//
//   unlinked --open--> opening --on_opened--> streaming --leave--> leaving --finish--> finished
//       ^                 |                      |
//       +------lose-------+----------------------+
//
// Thread rule: pure; owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "edge_client/session/reconnector.h"
#include "edge_client/session/stream_state.h"

namespace outrider {

class StreamLink final {
 public:
  enum class Phase : std::uint8_t {
    kUnlinked,   // before the first stream, or between two
    kOpening,    // Open is on its way
    kStreaming,  // Opened came
    kLeaving,    // the answer is decided; the stream's end is awaited for a while
    kFinished,
  };
  enum class Due : std::uint8_t {
    kNothing,
    kOpen,
    kGiveUp,
    kFinish,
    kSilent,  // the verifier has said nothing for longer than it promised
  };

  // As Reconnector says.
  StreamLink(Duration timeout, std::uint64_t jitter_seed) : reconnector_(timeout, jitter_seed) {}

  Phase phase() const { return phase_; }
  bool linked() const { return phase_ == Phase::kOpening || phase_ == Phase::kStreaming; }
  // The current stream, or the last; epoch 0: there was none yet.
  StreamState& stream() { return stream_; }
  const StreamState& stream() const { return stream_; }
  // No verdict came since the link failed.
  bool in_outage() const { return reconnector_.deadline().has_value(); }
  const std::string& last_error() const { return last_error_; }

  // When something is due next; TimePoint::max() if nothing will be.
  TimePoint next_tick() const;
  Due due(TimePoint now) const;

  void open(TimePoint now);
  // Returns how long ago Open left.
  Duration on_opened(TimePoint now);
  void on_verdict() { reconnector_.on_verdict(); }
  // Any message of the verifier.
  void heard(TimePoint now);
  // How long the verifier says that its passes may take; 0: it does not.
  void set_pass_limit(Duration limit) { pass_limit_ = limit; }
  // After so long without a word the link counts as lost.
  Duration longest_silence() const;
  void on_notice(const Notice& notice);
  // The stream ended, or failed. False: the verifier would stay away for too long.
  bool lose(const Status& why, TimePoint now);
  // Whether another stream may go on after one that ended so.
  bool may_retry(const Status& ended) const;
  void leave(TimePoint now);
  void finish() { phase_ = Phase::kFinished; }

 private:
  TimePoint silent_at() const { return stream_.waits_since + longest_silence(); }
  bool awaits_verifier() const { return phase_ == Phase::kUnlinked || phase_ == Phase::kOpening; }

  Reconnector reconnector_;
  Phase phase_ = Phase::kUnlinked;
  StreamState stream_;
  TimePoint leave_at_ = TimePoint::max();
  TimePoint retry_at_ = TimePoint::max();
  std::string last_error_;
  Duration pass_limit_{0};
};

}  // namespace outrider
