// The link to the verifier over one answer: which stream is open, when the next one is opened after
// a loss, when to give up, and how long to wait for the end of the last one.
//
//   unlinked --open--> opening --on_opened--> streaming --leave--> leaving --finish--> finished
//       ^                 |                      |
//       +------lose-------+----------------------+
//
// Reconnects use exponential back-off with jitter. An outage begins when the link fails and ends
// with the next verdict. Failures add up until then, so a server that accepts a stream and dies
// again does not keep the edge waiting for ever.
//
// Thread rule: pure, time is an argument; owned by the session. Errors: returned as a Status with
// the text for the user. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/speculation/speculation_actions.h"

namespace outrider {

// The session's view of one stream. A new stream replaces it whole.
struct StreamState {
  std::uint32_t epoch = 0;           // number of the stream; events of another epoch are ignored
  TimePoint opened_at{};             // when Open was sent
  std::uint32_t next_pass = 0;       // number of the pass that starts next
  std::optional<Started> started{};  // the pass that runs; nothing between passes
  Position acked = 0;                // last position that was acknowledged
  std::uint32_t reports_seen = 0;    // highest ExitReport.seq
  Duration asked_delay{0};           // a Notice asked to wait this long before the next stream
  bool overloaded = false;           // a Notice said that the server is overloaded
  bool prefix_asked = false;         // a Notice asked for the prefix
  // Those of the prompt's tokens from the second on that have come before the first verdict.
  std::vector<TokenLogprobs> prompt_logprobs{};
  // Since when the verifier owes an answer: its last message, or our first message after that.
  TimePoint waits_since{};
  bool asked = false;  // we have sent something since its last message
};

// The treatment of a link that was lost.
struct ReconnectOptions {
  Duration timeout = std::chrono::seconds(30);  // the longest outage
  // Another target may go on that has another arithmetic id; then the text may differ.
  bool accept_other_arithmetic = false;
};

class StreamLink final {
 public:
  enum class Phase : std::uint8_t {
    kUnlinked,   // before the first stream, or between two
    kOpening,    // Open was sent
    kStreaming,  // Opened has arrived
    kLeaving,    // the answer is decided; the end of the stream is awaited for a while
    kFinished,
  };
  enum class Due : std::uint8_t {
    kNothing,
    kOpen,
    kGiveUp,
    kFinish,
    kSilent,  // the verifier has said nothing for longer than it promised
  };

  // reconnect_timeout: the longest outage. jitter_seed: any number; edges should differ in it, so
  // that they do not all return to a restarted server at the same moment.
  StreamLink(Duration reconnect_timeout, std::uint64_t jitter_seed)
      : reconnect_timeout_(reconnect_timeout), jitter_(jitter_seed) {}

  Phase phase() const { return phase_; }
  bool linked() const { return phase_ == Phase::kOpening || phase_ == Phase::kStreaming; }
  // The current stream, or the last one; epoch 0: there was none yet.
  StreamState& stream() { return stream_; }
  const StreamState& stream() const { return stream_; }
  // The link has failed and no verdict has arrived since.
  bool in_outage() const { return outage_began_.has_value(); }

  // When something is due next; TimePoint::max() if nothing will be.
  TimePoint next_tick() const;
  Due due(TimePoint now) const;

  void open(TimePoint now);
  // Returns how long ago Open was sent.
  Duration on_opened(TimePoint now);
  // The verifier works again: the outage is over.
  void on_verdict();
  // Any message of the verifier.
  void heard(TimePoint now);
  // How long one pass may take, as the verifier says; 0: it does not say.
  void set_pass_limit(Duration limit) { pass_limit_ = limit; }
  void on_notice(const Notice& notice);
  // The stream ended or failed. False: the reconnect timeout is over.
  bool lose(const Status& why, TimePoint now);
  // Whether another stream may follow one that ended with this status.
  bool may_retry(const Status& ended) const;
  void leave(TimePoint now);
  void finish() { phase_ = Phase::kFinished; }

  // Lines for the user. Of the last notice: nothing within a second of the line before, which
  // the next line makes up for with the number of those that had none.
  std::optional<Say> notice_line(TimePoint now);
  Say lost_line(const Status& why) const;
  static Say back_line(std::size_t answer_tokens);
  Status silent_too_long() const;
  Status gave_up() const;

 private:
  Duration longest_silence() const;
  TimePoint silent_at() const { return stream_.waits_since + longest_silence(); }
  bool awaits_verifier() const { return phase_ == Phase::kUnlinked || phase_ == Phase::kOpening; }
  // When to give up; nothing outside an outage.
  std::optional<TimePoint> deadline() const;
  std::optional<TimePoint> next_try(TimePoint now);

  const Duration reconnect_timeout_;
  Phase phase_ = Phase::kUnlinked;
  StreamState stream_;
  Duration pass_limit_{0};
  TimePoint next_notice_line_ = TimePoint::min();
  std::uint64_t untold_notices_ = 0;
  TimePoint leave_at_ = TimePoint::max();
  // These belong to the current outage.
  std::mt19937_64 jitter_;
  std::optional<TimePoint> outage_began_;
  int failures_ = 0;
  TimePoint retry_at_ = TimePoint::max();
  std::string last_error_;
};

}  // namespace outrider
