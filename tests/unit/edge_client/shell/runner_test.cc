// Real threads: a resident verifier, a draft worker and the runner over toy models.
// SPDX-License-Identifier: Apache-2.0
#include "edge_client/shell/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/decoding/verify/scheduling/engine.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/verifiers/resident.h"
#include "tests/sim/toy_draft.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

using testing::Contains;
using testing::HasSubstr;

using Ids = std::vector<TokenId>;

class NoText final : public AnswerText {
 public:
  Update push(TokenId) override { return {}; }
  std::string finish() override { return {}; }
};

class Listener final : public AnswerListener {
 public:
  void on_emit(const Emit& emit) override {
    for (const Emit::Token& token : emit.tokens) ids.push_back(token.id);
    if (after_emit) after_emit();
  }
  void on_say(const Say& say) override { lines.push_back(say.line); }
  void on_prefill(const PrefillProgress&) override {}

  Ids ids;
  std::vector<std::string> lines;
  std::function<void()> after_emit;
};

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() {
    drafter_ = std::make_unique<Drafter>(DrafterOptions{.max_positions = 1000, .vocab_size = 13});
    worker_ = std::make_unique<DraftWorker>(*DraftEngine::create(draft_, clock_, 1100));
    engine_ = std::make_unique<VerifyEngine>(target_, SchedulerOptions{}, clock_);
    verifier_ = std::make_unique<ResidentVerifier>(*engine_);
    runner_ = std::make_unique<Runner>(*verifier_, worker_.get(), clock_, listener_);
  }

  DecodingOptions options(Position end) const {
    DecodingOptions options;
    options.speculation.first.strategy = Strategy::kSd;
    options.speculation.first.gamma = 3;
    options.speculation.token_bound = 13;
    options.speculation.end_position = end;
    options.choice.sampling = sampling_;
    options.choice.seed = 5;
    return options;
  }

  // An answer with this draft in place of the fixture's is the target's text all the same.
  void expect_whole_answer(Model& draft, DecodingSession& session) {
    DraftWorker worker(*DraftEngine::create(draft, clock_, 1100));
    Runner runner(*verifier_, &worker, clock_, listener_);
    EXPECT_EQ(runner.run(session, {sampling_, 5}).ending, Ending::kLength);
    const Ids whole = target_.decode(Ids{1, 2, 3}, 50, sampling_, 5);
    EXPECT_EQ(listener_.ids, Ids(whole.begin() + 3, whole.end()));
  }

  Finish run(DecodingSession& session) {
    return runner_->run(session, {sampling_, 5}, stop_.get_token());
  }

  std::stop_source stop_;
  SystemClock clock_;
  SamplingParams sampling_{.temperature = 0.7f};
  ToyModel target_{13};
  ToyDraft draft_{target_, 0.5f};
  Listener listener_;
  NoText text_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<DraftWorker> worker_;
  std::unique_ptr<VerifyEngine> engine_;
  std::unique_ptr<ResidentVerifier> verifier_;
  std::unique_ptr<Runner> runner_;
};

TEST_F(RunnerTest, AnAnswerOverRealThreadsIsTheTargetsText) {
  DecodingSession session(options(200), {1, 2, 3}, *drafter_, text_);
  EXPECT_EQ(run(session).ending, Ending::kLength);
  const Ids whole = target_.decode(Ids{1, 2, 3}, 200, sampling_, 5);
  EXPECT_EQ(listener_.ids, Ids(whole.begin() + 3, whole.end()));
  EXPECT_GT(session.stats().num_accepted_tokens, 0u);
  EXPECT_GT(session.stats().draft_steps, 0u);
}

TEST_F(RunnerTest, ALaterTurnReusesTheCachesOfBothSides) {
  DecodingSession first(options(60), {1, 2, 3}, *drafter_, text_);
  run(first);
  Ids prompt{1, 2, 3};
  prompt.insert(prompt.end(), first.answer().begin(), first.answer().end());
  prompt.insert(prompt.end(), {4, 5});
  listener_.ids.clear();
  const std::size_t rows_before = draft_.rows_run();

  DecodingOptions second_options = options(64);
  second_options.replaced_session = first.session_id();
  DecodingSession second(second_options, prompt, *drafter_, text_);
  EXPECT_EQ(run(second).ending, Ending::kLength);
  const Ids whole = target_.decode(prompt, 64, sampling_, 5);
  EXPECT_EQ(listener_.ids,
            Ids(whole.begin() + static_cast<std::ptrdiff_t>(prompt.size()), whole.end()));
  EXPECT_GE(second.stats().cached_tokens.value_or(0), 50u);
  EXPECT_LT(draft_.rows_run() - rows_before, 25u);
}

TEST_F(RunnerTest, CancelEndsTheAnswerAndTheVerifiersSession) {
  listener_.after_emit = [this] { stop_.request_stop(); };
  DecodingSession session(options(250), {1, 2, 3}, *drafter_, text_);
  EXPECT_EQ(run(session).ending, Ending::kCancelled);
  EXPECT_LT(session.answer().size(), 247u);
  EXPECT_TRUE(engine_->wait_until_idle(std::chrono::seconds(20)));
}

TEST_F(RunnerTest, ACancelThatComesBeforeTheAnswerBeginsIsNotLost) {
  stop_.request_stop();
  DecodingSession session(options(250), {1, 2, 3}, *drafter_, text_);
  EXPECT_EQ(run(session).ending, Ending::kCancelled);
  EXPECT_LT(session.answer().size(), 247u);
}

TEST_F(RunnerTest, ACancelOfTheAnswerBeforeDoesNotReachTheNext) {
  DecodingSession before(options(250), {1, 2, 3}, *drafter_, text_);
  listener_.after_emit = [this] { stop_.request_stop(); };
  EXPECT_EQ(run(before).ending, Ending::kCancelled);
  listener_.after_emit = nullptr;
  stop_ = std::stop_source();
  DecodingSession session(options(20), {1, 2, 3}, *drafter_, text_);
  EXPECT_EQ(run(session).ending, Ending::kLength);
}

TEST_F(RunnerTest, AFailingDraftModelLeavesTheAnswerWhole) {
  // This draft's context ends before the drafter's does: a step will fail.
  ToyDraft short_draft(target_, 0, 10);
  DecodingSession session(options(50), {1, 2, 3}, *drafter_, text_);
  expect_whole_answer(short_draft, session);
  EXPECT_TRUE(session.speculation().draft_failed());
  EXPECT_THAT(listener_.lines, Contains(HasSubstr("the draft model failed: toy: position")));
}

TEST_F(RunnerTest, ADraftWhoseLogitsNameNoTokenLeavesTheAnswerWhole) {
  ToyModel damaged(13, 1000);
  damaged.spoil_next_passes(1000);
  DecodingSession session(options(50), {1, 2, 3}, *drafter_, text_);
  expect_whole_answer(damaged, session);
  EXPECT_THAT(listener_.lines, Contains(HasSubstr("every logit is NaN or -infinity")));
}

// A verifier that talks without end.
class Flood final : public Verifier {
 public:
  void start(std::uint32_t epoch, EventSink sink) override {
    for (std::size_t i = 0; i < 2 * Runner::kMaxEvents; ++i) {
      sink({epoch, ServerMessage(Notice{.kind = Notice::Kind::kReconnectSoon, .retry_after = {}})});
    }
  }
  void send(EdgeMessage) override {}
  void stop() override {}
};

TEST_F(RunnerTest, AFloodingVerifierLosesItsStream) {
  Flood flood;
  Runner runner(flood, worker_.get(), clock_, listener_);
  DecodingSession session(options(50), {1, 2, 3}, *drafter_, text_);
  const Finish finish = runner.run(session, {sampling_, 5});
  EXPECT_EQ(finish.ending, Ending::kFailed);
  EXPECT_THAT(finish.status.message(), HasSubstr("sends faster than it may"));
}

}  // namespace
}  // namespace outrider
