// The decoding brain of the edge (DESIGN L4): one answer, from Open to its end.
//
//   start (handle)* until a Finish
//
// Events and a time go in, actions come out; it knows neither threads nor gRPC. It routes each
// event to the part that it concerns and survives the loss of its verifier: the committed ids are
// the state (L3), so a reconnect opens a new stream with them. Its parts: the link (stream_link.h),
// the verifier's passes (pass_handler.h), the answer (answer.h), and what leaves (outbox.h). What
// to draft and send is the speculator's (speculation/speculator.h); figures and the timeline hang
// on it as observers (metrics/session_observer.h).
//
// Thread rule: none of its own; one thread. drafter, text and observers outlive the session.
// Errors: none are returned; every failure becomes a Say or the Finish.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/conversation/answer_text.h"
#include "common/drafting/drafter.h"
#include "edge_client/metrics/figure_recorder.h"
#include "edge_client/session/answer.h"
#include "edge_client/session/answer_brain.h"
#include "edge_client/session/decoding_options.h"
#include "edge_client/session/events.h"
#include "edge_client/session/outbox.h"
#include "edge_client/session/pass_handler.h"
#include "edge_client/session/stream_link.h"
#include "edge_client/speculation/speculator.h"

namespace outrider {

class DecodingSession final : public AnswerBrain {
 public:
  // prompt: at least one token.
  DecodingSession(DecodingOptions options, std::vector<TokenId> prompt, Drafter& drafter,
                  AnswerText& text);

  SessionActions start(TimePoint now) override;
  SessionActions handle(const SessionEvent& event, TimePoint now) override;

  TimePoint next_tick() const override { return link_.next_tick(); }
  bool finished() const { return link_.phase() == Phase::kFinished; }
  // The answer is decided, or over: no other stream will follow.
  bool decided() const { return link_.phase() >= Phase::kLeaving; }
  // Prompt and answer, as committed.
  std::span<const TokenId> text() const { return drafter_.tree().text(); }

  const DecodingStats& stats() const { return figures_.stats(); }
  // The answer's ids: all that were emitted.
  const std::vector<TokenId>& answer() const { return answer_.ids(); }
  // For the next turn; empty before the first Opened.
  const std::string& session_id() const { return opened_.session_id; }
  const Opened& opened() const { return opened_; }
  // Why drafting ended or did not begin, and what it taught.
  const Speculator& speculation() const { return speculator_; }

 private:
  using Phase = StreamLink::Phase;

  void on(const FromVerifier& event);
  void on(const DraftStepFinished& event);
  void on(const Tick& event);
  void on(const CancelRequested& event);
  void on(const Reopen& event);
  void on(const LinkProbed&) {}
  void on(const OnlineForbidden&) {}

  void on_message(const Opened& opened);
  void on_message(const Progress& progress);
  void on_message(const Started& started);
  void on_message(const Verdict& verdict);
  void on_message(const ExitReport& report) { passes_.on_exit_report(report, now_); }
  void on_message(const Usage& usage);
  void on_message(const Notice& notice);
  void on_stream_end(const Status& status);

  void open_stream();
  void lose_link(const Status& why);
  void give_up();
  void leave(Ending ending);
  void fail(const Status& status);
  void finish(Ending ending, Status status);
  void decide();

  const DecodingOptions options_;
  Drafter& drafter_;
  FigureRecorder figures_;
  ObserverList observers_;
  Answer answer_;
  Speculator speculator_;
  StreamLink link_;
  Outbox outbox_;
  Opened opened_;  // the last one: a new stream must come from the same target
  bool ever_opened_ = false;
  PassHandler passes_;
  Ending ending_ = Ending::kFailed;  // while leaving
  TimePoint now_{};                  // of the event being handled
};

}  // namespace outrider
