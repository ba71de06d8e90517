// The decoding brain of the edge (DESIGN L4): one answer, from Open to its end.
//
//   start (handle)* until a Finish
//
// Events and a time go in, actions come out; it knows neither threads nor gRPC. It holds the
// committed text, routes each event to the part that it concerns, checks what the verifier says,
// and survives the loss of its verifier: the committed ids are the state (L3), so a reconnect opens
// a new stream with them. What to draft and send is the speculator's (speculation/speculator.h);
// figures and the timeline hang on it as observers (metrics/session_observer.h).
//
// Thread rule: none of its own; one thread. drafter, text and observers outlive the session.
// Errors: none are returned; every failure becomes a Say or the Finish.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/conversation/answer_text.h"
#include "common/drafting/drafter.h"
#include "common/sampling/sampling.h"
#include "edge_client/metrics/figure_recorder.h"
#include "edge_client/session/answer.h"
#include "edge_client/session/events.h"
#include "edge_client/session/message_checks.h"
#include "edge_client/session/reconnector.h"
#include "edge_client/session/stream_state.h"
#include "edge_client/speculation/speculator.h"

namespace outrider {

struct DecodingOptions {
  Strategy strategy = Strategy::kAr;
  int gamma = 4;     // drafted tokens of a round
  int branches = 1;  // sd, fsd: chains in a round, under its likeliest first tokens
  int fan_out = 3;   // mirror: next tokens considered at each position
  QueueOrder queue = QueueOrder::kPriority;
  Optimize optimize = Optimize::kLatency;  // mirror
  double uplink_budget = 0;  // mirror: bytes/s for what may turn out unused; 0: as the link carries
  // Said with the target's name when the first stream opens: "ON (draft x, γ=4)", or "OFF because"
  // and the reason. Empty: neither is said (later turns of a chat).
  std::string speculation;
  std::string tokenizer_hash;
  std::int32_t token_bound = 0;  // tokens a draft may send before Opened names the vocabulary
  SamplingParams sampling;
  std::uint64_t seed = 0;
  Position end_position = 0;  // prompt and answer; the target's context may end it sooner
  std::vector<TokenId> stop_ids;
  std::string replaced_session;         // of the turn before
  SessionObserver* observer = nullptr;  // beside the figures; null: none
  Duration reconnect_timeout = std::chrono::seconds(30);
  std::uint64_t jitter_seed = 0;
};

class DecodingSession final {
 public:
  // prompt: at least one token.
  DecodingSession(DecodingOptions options, std::vector<TokenId> prompt, Drafter& drafter,
                  AnswerText& text);
  DecodingSession(const DecodingSession&) = delete;
  DecodingSession& operator=(const DecodingSession&) = delete;

  SessionActions start(TimePoint now);
  SessionActions handle(const SessionEvent& event, TimePoint now);

  // When to send a Tick; TimePoint::max() if none is needed.
  TimePoint next_tick() const;
  bool finished() const { return phase_ == Phase::kFinished; }

  const DecodingStats& stats() const { return figures_.stats(); }
  // The answer's ids: all that were emitted.
  const std::vector<TokenId>& answer() const { return answer_.ids(); }
  // For the next turn; empty before the first Opened.
  const std::string& session_id() const { return opened_.session_id; }
  const Opened& opened() const { return opened_; }
  // Why drafting ended before the answer did; nothing if it did not.
  const std::optional<std::string>& speculation_ended() const { return speculator_.ended(); }
  // The draft model gave an error: it is of no use to later turns either.
  bool draft_failed() const { return speculator_.draft_failed(); }

 private:
  enum class Phase : std::uint8_t {
    kUnlinked,   // before the first stream, or between two
    kOpening,    // Open is on its way
    kStreaming,  // Opened came
    kLeaving,    // the answer is decided; the stream's end is awaited until leave_at_
    kFinished,
  };

  void on(const FromVerifier& event);
  void on(const DraftStepFinished& event);
  void on(const Tick& event);
  void on(const CancelRequested& event);

  void on_message(const Opened& opened);
  void on_message(const Progress& progress);
  void on_message(const Started& started);
  void on_message(const Verdict& verdict);
  void on_message(const ExitReport& report);
  void on_message(const Usage& usage);
  void on_message(const Notice& notice);
  void on_stream_end(const Status& status);

  void open_stream();
  void first_opened();
  void commit(const Verdict& verdict);
  void acknowledge();
  void lose_link(const Status& why);
  void give_up(const std::string& why);
  void leave(Ending ending);
  void fail(const Status& status);
  void finish(Ending ending, Status status);

  void decide();
  void perform(SpeculationActions actions);
  void send(EdgeMessage::Body body);
  void say(Say::Level level, std::string line);

  StreamView view() const;
  bool linked() const { return phase_ == Phase::kOpening || phase_ == Phase::kStreaming; }

  const DecodingOptions options_;
  Drafter& drafter_;
  std::uint64_t evicted_before_ = 0;  // by the drafter, in answers before
  FigureRecorder figures_;
  ObserverList observers_;
  Answer answer_;
  Speculator speculator_;
  Reconnector reconnector_;

  Phase phase_ = Phase::kUnlinked;
  Ending ending_ = Ending::kFailed;  // while leaving
  TimePoint leave_at_ = TimePoint::max();
  TimePoint retry_at_ = TimePoint::max();
  std::string link_error_;  // of the last failure

  StreamState stream_;  // the current one, or the last
  bool ever_opened_ = false;
  Opened opened_;  // the last one: a new stream must come from the same target

  TimePoint now_{};         // of the event being handled
  SessionActions actions_;  // of the event being handled
};

}  // namespace outrider
