// A decoding session in the hands of a test, over the simulation's loop: draft steps run at once on
// a toy model, the test plays the verifier, time moves when told.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/sim_edge.h"
#include "sim/simulation.h"
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

// Keeps what the edge sends; says what the test makes it say.
class PlayedVerifier final : public Verifier {
 public:
  void start(std::uint32_t epoch, EventSink sink) override {
    epoch_ = epoch;
    sink_ = std::move(sink);
  }
  void send(EdgeMessage message) override { messages.push_back(std::move(message)); }
  void stop() override {}
  void say(VerifierEvent event) { sink_({epoch_, std::move(event)}); }

  std::vector<EdgeMessage> messages;  // all that were sent

 private:
  std::uint32_t epoch_ = 0;
  EventSink sink_;
};

class SessionHarness final : public SimEdgeObserver {
 public:
  using Ids = std::vector<TokenId>;

  explicit SessionHarness(Strategy strategy, int gamma = 3, std::string stop = "")
      : text_(std::move(stop)) {
    options.speculation.first.strategy = strategy;
    options.announcement = strategy == Strategy::kAr ? "OFF because ar" : "ON (draft toy)";
    options.tokenizer_hash = "hash";
    options.speculation.token_bound = 13;
    options.speculation.end_position = 100;
    options.speculation.first.gamma = gamma;
  }

  void start(const Ids& prompt = {1, 2, 3}) {
    SimEdgeSetup setup{
        .prompt = prompt,
        .decoding = options,
        .drafter = {.max_positions = draft_context, .vocab_size = 13, .workers = workers},
        .step_takes = [this](std::size_t) {
          return hold_draft_steps ? Duration::max() : Duration{0};
        }};
    edge_ =
        std::make_unique<SimEdge>(simulation_, verifier_, draft, text_, std::move(setup), *this);
    session = &edge_->session();
    edge_->begin();
    settle();
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
    const auto last_id = tree().ids().last_id();
    from_verifier(Started{.pass = next_pass, .position = end(), .last_id = last_id});
    from_verifier(Verdict{.pass = next_pass++, .position = end(), .tokens = tokens, .rows = 1});
  }
  void from_verifier(ServerMessage message) {
    verifier_.say(std::move(message));
    settle();
  }
  void usage(const Usage& message) {
    from_verifier(message);
    stream_ends({});
  }
  void stream_ends(Status status) {
    verifier_.say(StreamEnded{std::move(status)});
    settle();
  }

  void handle(const SessionEvent& event) {
    edge_->handle(event);
    settle();
  }
  void tick_when_due() {
    ASSERT_NE(session->next_tick(), TimePoint::max());
    clock.sleep_until(session->next_tick());
    settle();
  }

  // --- the draft's part ---
  const DraftStep* held_step() const { return edge_->draft().step(); }
  bool abandoned() const { return edge_->draft().abandoned(); }
  void run_held_step() {
    edge_->draft().finish();
    settle();
  }
  void fail_held_step(const Status& status) {
    edge_->draft().fail(status);
    settle();
  }

  const MirroredTree& tree() const { return edge_->drafter().tree(); }
  Position end() const { return tree().end(); }
  // The draft's own continuation of the committed text.
  Ids draft_says(std::size_t count) const {
    const std::span<const TokenId> text = tree().text();
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

 private:
  Simulation simulation_{0};
  PlayedVerifier verifier_;

 public:
  DecodingOptions options;
  Position draft_context = 1000;
  int workers = 1;
  ManualClock& clock = simulation_.clock();
  ToyModel toy{13};
  ToyDraft draft{toy};
  bool hold_draft_steps = false;

  const DecodingSession* session = nullptr;
  std::uint32_t epoch = 0;
  std::uint32_t next_pass = 0;
  const std::vector<EdgeMessage>& messages = verifier_.messages;
  std::vector<std::string> lines;  // all that were said
  std::string shown;
  Ids shown_ids;
  std::vector<bool> shown_drafted;
  std::optional<Finish> finish;
  int progress_reports = 0;

 private:
  // Runs what is due.
  void settle() {
    while (simulation_.step(clock.now())) {
    }
  }
  void on_action(SessionAction& action) override {
    std::visit([this](const auto& a) { record(a); }, action);
  }
  void record(const Connect& connect) {
    epoch = connect.epoch;
    next_pass = 0;
  }
  void record(const Send&) {}
  void record(const RunDraftStep&) { ASSERT_FALSE(held_step()) << "one step at a time"; }
  void record(const AbandonDraftStep&) { ASSERT_TRUE(held_step()) << "no step is out"; }
  void record(const Emit& emit) {
    for (const Emit::Token& token : emit.tokens) {
      shown += token.text;
      if (token.id < 0) continue;
      shown_ids.push_back(token.id);
      shown_drafted.push_back(token.drafted);
    }
  }
  void record(const Say& say) { lines.push_back(say.line); }
  void record(const Provisional&) { FAIL() << "nobody asked for it"; }
  void record(const StandBy&) { FAIL() << "there is one route"; }
  void record(const ProbeLink&) { FAIL() << "there is one route"; }
  void record(const PrefillProgress&) { ++progress_reports; }
  void record(const Finish& f) {
    ASSERT_FALSE(finish) << "finished twice";
    finish = f;
  }

  LetterText text_;
  std::unique_ptr<SimEdge> edge_;
};

}  // namespace outrider
