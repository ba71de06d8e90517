// A decoding session in the hands of a test: draft steps run at once on a toy model, the verifier
// is played by the test, time moves when told.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <atomic>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/drafting/draft_engine.h"
#include "edge_client/session/decoding_session.h"
#include "tests/sim/toy_draft.h"

namespace outrider {

// Token 3 reads "d"; "stop" is a list of tokens that must come in a row.
class LetterText final : public AnswerText {
 public:
  explicit LetterText(std::string stop = "") : stop_(std::move(stop)) {}

  Update push(TokenId token) override {
    seen_ += static_cast<char>('a' + token);
    if (!stop_.empty() && seen_.ends_with(stop_)) return {.text = {}, .stopped = true};
    return {.text = std::string(1, seen_.back()), .stopped = false};
  }
  std::string finish() override { return "."; }

 private:
  std::string stop_;
  std::string seen_;
};

class SessionHarness {
 public:
  using Ids = std::vector<TokenId>;

  explicit SessionHarness(Strategy strategy, int gamma = 3, std::string stop = "")
      : text_(std::move(stop)) {
    options.strategy = strategy;
    options.speculation = strategy == Strategy::kAr ? "OFF because ar" : "ON (draft toy)";
    options.tokenizer_hash = "hash";
    options.token_bound = 13;
    options.end_position = 100;
    options.gamma = gamma;
  }

  void start(const Ids& prompt = {1, 2, 3}) {
    drafter_ = std::make_unique<Drafter>(
        DrafterOptions{.max_positions = draft_context, .vocab_size = 13, .workers = workers});
    engine_ = *DraftEngine::create(draft, clock, 1100);
    session = std::make_unique<DecodingSession>(options, prompt, *drafter_, text_);
    prompt_ = prompt;
    take(session->start(clock.now()));
  }

  // --- the verifier's part ---
  void opened(Opened message) { from_verifier(std::move(message)); }
  void opened() { opened(target()); }
  static Opened target() {
    Opened message{.session_id = "s1", .fingerprint = "f", .arithmetic_id = "a"};
    message.model_name = "toy-target";
    message.stop_ids = {12};
    message.limits.max_positions = 1000;
    message.limits.vocab_size = 13;
    return message;
  }
  // Starts and ends a pass that takes every node sent so far.
  void pass(const Ids& tokens) {
    const auto last_id = drafter_->tree().ids().next_id() - 1;
    from_verifier(Started{.pass = next_pass, .position = end(), .last_id = last_id});
    from_verifier(Verdict{.pass = next_pass++, .position = end(), .tokens = tokens, .rows = 1});
  }
  void from_verifier(ServerMessage message) {
    handle(FromVerifier{epoch, VerifierEvent(std::move(message))});
  }
  void usage(const Usage& message) {
    from_verifier(message);
    stream_ends({});
  }
  void stream_ends(Status status) {
    handle(FromVerifier{epoch, VerifierEvent(StreamEnded{std::move(status)})});
  }

  void handle(const SessionEvent& event) { take(session->handle(event, clock.now())); }
  void tick_when_due() {
    ASSERT_NE(session->next_tick(), TimePoint::max());
    clock.sleep_until(session->next_tick());
    handle(Tick{});
  }

  const MirroredTree& tree() const { return drafter_->tree(); }
  Position end() const { return tree().end(); }
  // The draft's own continuation of the committed text.
  Ids draft_says(std::size_t count) const {
    const std::span<const TokenId> text = drafter_->tree().text();
    const Ids all = toy.decode(text, end() + static_cast<Position>(count), {}, 0);
    return {all.begin() + static_cast<std::ptrdiff_t>(text.size()), all.end()};
  }

  // --- what came out ---
  template <typename Body>
  std::vector<Body> sent() const {
    std::vector<Body> bodies;
    for (const EdgeMessage& message : messages) {
      if (const auto* body = std::get_if<Body>(&message.body)) bodies.push_back(*body);
    }
    return bodies;
  }
  bool said(const std::string& part) const {
    return std::ranges::any_of(
        lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }
  static Ids tokens_of(const Grow& grow) {
    Ids tokens;
    for (const GrowNode& node : grow.nodes) tokens.push_back(node.token);
    return tokens;
  }

  DecodingOptions options;
  Position draft_context = 1000;
  int workers = 1;
  ManualClock clock;
  ToyModel toy{13};
  ToyDraft draft{toy};
  bool hold_draft_steps = false;
  std::optional<DraftStep> held_step;
  std::atomic<bool> abandoned = false;  // the held step

  std::unique_ptr<DecodingSession> session;
  std::uint32_t epoch = 0;
  std::uint32_t next_pass = 0;
  std::vector<EdgeMessage> messages;  // all that were sent
  std::vector<std::string> lines;     // all that were said
  std::string shown;
  Ids shown_ids;
  std::vector<bool> shown_drafted;
  std::optional<Finish> finish;

  void run_held_step() {
    const DraftStep step = *std::exchange(held_step, std::nullopt);
    Result<DraftStepDone> done = engine_->run(step, &abandoned);
    abandoned = false;
    handle(DraftStepFinished{std::move(done)});
  }

 private:
  void take(SessionActions actions) {
    for (SessionAction& action : actions) {
      std::visit([this](auto& a) { on(a); }, action);
    }
  }
  void on(const Connect& connect) {
    epoch = connect.epoch;
    next_pass = 0;
  }
  void on(Send& send) { messages.push_back(std::move(send.message)); }
  void on(RunDraftStep& run) {
    ASSERT_FALSE(held_step) << "one step at a time";
    held_step = std::move(run.step);
    if (!hold_draft_steps) run_held_step();
  }
  void on(const AbandonDraftStep&) {
    ASSERT_TRUE(held_step) << "no step is out";
    abandoned = true;
  }
  void on(const Emit& emit) {
    for (const Emit::Token& token : emit.tokens) {
      shown += token.text;
      if (token.id < 0) continue;
      shown_ids.push_back(token.id);
      shown_drafted.push_back(token.drafted);
    }
  }
  void on(const Say& say) { lines.push_back(say.line); }
  void on(const PrefillProgress&) { ++progress_reports; }
  void on(const Finish& f) {
    ASSERT_FALSE(finish) << "finished twice";
    finish = f;
  }

 public:
  int progress_reports = 0;

 private:
  LetterText text_;
  Ids prompt_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<DraftEngine> engine_;
};

}  // namespace outrider
