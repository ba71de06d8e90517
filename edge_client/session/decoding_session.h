// Decides how one answer is decoded, from Open to its end.
//
//   start (handle)* until a Finish
//
// Events and the time go in, actions come out (events.h). It uses neither threads nor gRPC. It
// survives the loss of its verifier: the committed ids are the whole state, so a reconnect opens
// a new stream with them and goes on at the next token.
//
// The loop of speculative decoding is turn(): commit, grow, select, send. Each part of the work
// around it is one module: the link and its reconnects (stream_link.h), the first messages of a
// stream (opening.h), checks of every message (message_checks.h), the text (answer.h), and what to
// draft and to send (speculation/speculator.h). Figures and the timeline are observers
// (metrics/session_observer.h).
//
// Thread rule: none of its own; one thread. drafter, text and observers outlive the session.
// Errors: none are returned; every failure becomes a Say or the Finish.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/drafting/drafter.h"
#include "common/decoding/request/text_options.h"
#include "common/serving/conversation/answer_text.h"
#include "edge_client/metrics/figure_recorder.h"
#include "edge_client/metrics/session_observer.h"
#include "edge_client/session/answer.h"
#include "edge_client/session/events.h"
#include "edge_client/session/message_checks.h"
#include "edge_client/session/stream_link.h"
#include "edge_client/speculation/speculator.h"

namespace outrider {

// How an answer is decoded.
struct DecodingOptions {
  SpeculatorOptions speculation;
  // Said with the target's name when the first stream opens: "ON (draft x, γ=4)", or "OFF because"
  // and the reason. Empty: neither is said (later turns of a chat).
  std::string announcement;
  std::string tokenizer_hash;
  TokenChoice choice;
  std::vector<TokenId> stop_ids;
  std::optional<std::uint32_t> top_logprobs = {};  // as Open's
  bool prompt_logprobs = false;                    // the same, with top_logprobs
  bool wants_digests = false;                      // the same, for a record
  bool ignore_target_stops = false;                // only stop_ids end the answer
  ServiceTier service_tier = ServiceTier::kDefault;
  bool accepts_server_nodes = true;  // the server may draft too
  std::string level = {};            // of the target, as Open's
  std::string template_hash;         // of what wrote the prompt, as Open's; empty: any
  std::string replaced_session;      // of the turn before
  std::string session_key;  // of this answer: 32 hex digits that nobody can guess; empty: none
  ReconnectOptions reconnect;
  std::uint64_t jitter_seed = 0;  // as StreamLink says
  // Another verifier may go on with another model.
  bool accept_other_model = false;
  SessionObserver* observer = nullptr;  // beside the figures; null: none
  SessionObserver* recorder = nullptr;  // the same, which keeps a record
};

class DecodingSession final : public AnswerSession {
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
  // Asked for a step of the drafter after each event of a linked stream, before anything is drafted
  // ahead, and after the round that the verifier waits for. Empty: nobody is.
  void draft_first(std::function<std::optional<DraftStep>()> step) {
    draft_first_ = std::move(step);
  }
  // Prompt and answer, as committed.
  std::span<const TokenId> text() const { return tree().text(); }
  const MirroredTree& tree() const { return drafter_.tree(); }
  // How drafts are to be chosen.
  const TokenChoice& choice() const { return options_.choice; }
  // Where the answer ends at the latest, and what ends it sooner: as far as is known.
  Position end_position() const { return answer_.end_position(); }
  const std::vector<TokenId>& stop_ids() const {
    return ever_opened_ ? opened_.stop_ids : options_.stop_ids;
  }

  const DecodingStats& stats() const { return figures_.stats(); }
  // The answer's ids: all that were emitted.
  const std::vector<TokenId>& answer() const { return answer_.ids(); }
  // The log-probabilities of each token of the answer; empty unless they were asked for.
  const std::vector<TokenLogprobs>& logprobs() const { return answer_.logprobs(); }
  // Those of the prompt's tokens but its first one: the same.
  const std::vector<TokenLogprobs>& prompt_logprobs() const { return answer_.prompt_logprobs(); }
  // For the next turn; empty before the first Opened.
  const std::string& session_id() const { return opened_.session_id; }
  const Opened& opened() const { return opened_; }
  // Why drafting ended or did not begin, and what this answer has learnt.
  const Speculator& speculation() const { return speculator_; }

 private:
  using Phase = StreamLink::Phase;

  void turn();
  void commit(const Verdict& verdict);
  void check_draft();

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
  void on_message(const ExitReport& report);
  void on_message(const Usage& usage);
  void on_message(const Notice& notice);
  void on_message(const PromptLogprobs& scored);
  void on_stream_end(const Status& status);

  // Log-probabilities of the prompt come in this stream: all of them, as no token is there yet.
  bool scores_prompt() const { return options_.prompt_logprobs && answer_.ids().empty(); }
  void open_stream();
  void lose_link(const Status& why);
  void give_up();
  void leave(Ending ending);
  void fail(const Status& status);
  void finish(Ending ending, Status status);

  void send(EdgeMessage::Body body);
  void send_prefix();
  // Sends an acknowledgement if the verifier would soon pause for want of one.
  void acknowledge();
  void add(SessionAction action) { actions_.push_back(std::move(action)); }
  // Policies among them are sent.
  void add(SpeculationActions actions);

  // The state of the stream, for checks.
  StreamView view() const;

  const DecodingOptions options_;
  Drafter& drafter_;
  const std::uint64_t evicted_before_;  // by the drafter, in earlier answers
  FigureRecorder figures_;
  ObserverList observers_;
  Answer answer_;
  Speculator speculator_;
  StreamLink link_;
  Opened opened_;  // the last one: a new stream must come from the same target
  bool ever_opened_ = false;
  Ending ending_ = Ending::kFailed;  // while leaving
  std::function<std::optional<DraftStep>()> draft_first_;
  // These belong to the event being handled.
  TimePoint now_{};
  const Verdict* verdict_ = nullptr;  // that it brought, checked, not yet committed
  SessionActions actions_;
};

}  // namespace outrider
