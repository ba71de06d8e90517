// The decoding brain of the edge (DESIGN L4): one answer, from Open to its end.
//
//   start (handle)* until a Finish
//
// Events and a time go in, actions come out; it knows neither threads nor gRPC. It holds the
// committed text, keeps the mirrored tree by docs/mirrored-tree.md, and survives the loss of its
// verifier: the committed ids are the state (L3), so a reconnect opens a new stream with them.
//
// Strategies: kAr decodes in the cloud alone (pass policy eager, no nodes). kSd drafts a round,
// sends it whole (on_request), and drafts the next after its verdict. kFsd also drafts the next
// round before the verdict, for the outcomes that the target's early exits name (FSD section 3).
// kMirror drafts ahead for its own guesses too and sends what it drafts before the verdict, so that
// the verifier need not wait for it; a controller says how far to go. When the draft can go on no
// further, the session says so once and goes on as kAr does.
//
// Thread rule: none of its own; one thread. drafter and text outlive the session.
// Errors: none are returned; every failure becomes a Say or the Finish.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/conversation/answer_text.h"
#include "common/drafting/drafter.h"
#include "edge_client/metrics/decoding_stats.h"
#include "edge_client/metrics/timeline.h"
#include "edge_client/session/events.h"
#include "edge_client/session/message_checks.h"
#include "edge_client/session/reconnector.h"
#include "edge_client/speculation/controller.h"
#include "edge_client/speculation/sending_rule.h"
#include "edge_client/speculation/timings.h"
#include "edge_client/speculation/uplink_window.h"

namespace outrider {

enum class Strategy : std::uint8_t { kAr, kSd, kFsd, kMirror };

const char* name_of(Strategy strategy);

struct DecodingOptions {
  Strategy strategy = Strategy::kAr;
  int gamma = 4;    // drafted tokens of a round
  int fan_out = 3;  // kMirror: next tokens considered at each position
  QueueOrder queue = QueueOrder::kPriority;
  Optimize optimize = Optimize::kLatency;  // kMirror
  double uplink_budget = 0;  // kMirror: bytes/s for what may turn out vain; 0: as the link carries
  // Said with the target's name when the first stream opens: "ON (draft x, γ=4)", "OFF because ..".
  // Empty: neither is said (later turns of a chat).
  std::string speculation;
  std::string tokenizer_hash;
  std::int32_t token_bound = 0;  // tokens a draft may send before Opened names the vocabulary
  SamplingParams sampling;
  std::uint64_t seed = 0;
  Position end_position = 0;  // prompt and answer; the target's context may end it sooner
  std::vector<TokenId> stop_ids;
  std::string replaced_session;  // of the turn before
  Timeline* timeline = nullptr;  // filled if there is one; outlives the session
  Duration reconnect_timeout = std::chrono::seconds(30);
  std::uint64_t jitter_seed = 0;
};

class DecodingSession final {
 public:
  // prompt: at least one token.
  DecodingSession(DecodingOptions options, std::vector<TokenId> prompt, Drafter& drafter,
                  AnswerText& text);

  SessionActions start(TimePoint now);
  SessionActions handle(const SessionEvent& event, TimePoint now);

  // When to send a Tick; TimePoint::max() if none is needed.
  TimePoint next_tick() const;
  bool finished() const { return phase_ == Phase::kFinished; }

  const DecodingStats& stats() const { return stats_; }
  // The answer's ids: all that were emitted.
  const std::vector<TokenId>& answer() const { return answer_; }
  // For the next turn; empty before the first Opened.
  const std::string& session_id() const { return opened_.session_id; }
  const Opened& opened() const { return opened_; }
  // Why drafting ended before the answer did; nothing if it did not.
  const std::optional<std::string>& speculation_ended() const { return speculation_ended_; }
  // The draft model gave an error: it is of no use to later turns either.
  bool draft_failed() const { return draft_failed_; }

 private:
  enum class Phase : std::uint8_t {
    kUnlinked,   // before the first stream, or between two
    kOpening,    // Open is on its way
    kStreaming,  // Opened came
    kLeaving,    // the answer is decided; a farewell is awaited until leave_at_
    kFinished,
  };

  void on(const FromVerifier& event);
  void on(const DraftStepFinished& event);
  void on(const Tick& event);
  void on(const CancelRequested& event);

  void receive(const Opened& opened);
  void receive(const Progress& progress);
  void receive(const Started& started);
  void receive(const Verdict& verdict);
  void receive(const ExitReport& report);
  void receive(const Usage& usage);
  void receive(const Notice& notice);
  void stream_ended(const Status& status);

  void open_stream();
  void lose_link(const Status& why);
  void give_up(const std::string& why);
  void commit(const Verdict& verdict);
  Position count(const Verdict& verdict);
  std::optional<bool> exits_of_pass() const;
  void set_policy(const Policy& policy);
  void draft();
  void draft_round();
  void draft_ahead();
  void send_ahead(bool draft_works);
  bool drafts_ahead() const;
  int fan_out() const;
  std::size_t useful(int length) const;
  bool verifier_goes_on() const;
  void count_hit(const CacheLookup& found);
  void follow_plan();
  bool mirrors() const { return options_.strategy == Strategy::kMirror; }
  int gamma() const { return mirrors() ? controller_.current().gamma : options_.gamma; }
  void send_round();
  void send_nodes(Grow grow);
  std::int32_t token_bound() const;
  void stop_drafting(const std::string& reason);
  void acknowledge();
  void send(decltype(EdgeMessage::body) body);
  void say(Say::Level level, std::string line);
  void leave(Ending ending);
  void fail(const Status& status);
  void finish(Ending ending, Status status);

  void trace(Timeline::Track track, const std::string& what);
  void trace_verdict(const Verdict& verdict);
  void trace_waits(const TimeSpent& spent);
  void trace_hit(const CacheLookup& found, CacheHit hit);
  StreamView view() const;
  std::optional<Ending> natural_ending() const;
  Position useful_depth() const;
  bool linked() const { return phase_ == Phase::kOpening || phase_ == Phase::kStreaming; }

  DecodingOptions options_;
  Drafter& drafter_;
  AnswerText& text_;
  const Position prompt_length_;
  std::vector<TokenId> answer_;
  Position end_position_;  // options_.end_position, or the target's context if that is less
  DecodingStats stats_;
  TimeKeeper keeper_{stats_.time_spent};
  std::optional<std::string> speculation_ended_;
  bool drafting_;
  bool draft_failed_ = false;
  Controller controller_;  // kMirror
  Timings timings_;
  ByteAllowance allowance_;
  UplinkWindow uplink_;
  Policy policy_;
  std::uint64_t evicted_before_ = 0;  // by the drafter, in answers before

  Phase phase_ = Phase::kUnlinked;
  Ending ending_ = Ending::kFailed;  // while leaving
  TimePoint leave_at_ = TimePoint::max();
  TimePoint retry_at_ = TimePoint::max();
  Reconnector reconnector_;
  std::string link_error_;        // of the last failure
  Duration asked_delay_{0};       // by a Notice of this stream
  bool retry_was_asked_ = false;  // likewise

  // Of the current stream.
  std::uint32_t epoch_ = 0;
  bool ever_opened_ = false;
  Opened opened_;
  std::uint32_t next_pass_ = 0;
  std::optional<Started> started_;
  std::optional<bool> pass_has_exits_;         // its; nothing if that is not known
  std::optional<TimePoint> exits_changed_at_;  // the policy's word on them
  bool round_sent_ = false;                    // the verifier has what it needs for its next pass
  NodeId ahead_id_ = 0;  // of the next round's first node if that left before the verdict
  Position acked_ = 0;
  std::uint32_t reports_seen_ = 0;
  TimePoint pass_origin_{};  // what leaves within T_q of this is there before the pass ends
  TimePoint opened_at_{};    // Open left
  std::optional<TimePoint> asked_at_;  // an idle verifier was asked for a pass ..
  NodeId asked_id_ = 0;                // .. with nodes up to this
  std::optional<Duration> asked_for_;  // that took so long to start

  TimePoint now_{};         // of the event being handled
  SessionActions actions_;  // likewise
};

}  // namespace outrider
