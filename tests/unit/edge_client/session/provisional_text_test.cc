// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/provisional_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/edge_client/session/session_harness.h"

namespace outrider {
namespace {

// Token 3 reads "d".
class Letters final : public AnswerText {
 public:
  Update push(TokenId token) override { return {.text = letter(token), .stopped = false}; }
  std::string finish() override { return {}; }
  Update preview(std::span<const TokenId> tokens, bool) const override {
    return {.text = of(tokens), .stopped = false};
  }

  static std::string of(std::span<const TokenId> tokens) {
    std::string text;
    for (const TokenId token : tokens) text += letter(token);
    return text;
  }

 private:
  static std::string letter(TokenId token) {
    return std::string(1, static_cast<char>('a' + token));
  }
};

class ProvisionalTextTest : public testing::Test {
 protected:
  NodeIndex grow(NodeIndex parent, TokenId token, float confidence) {
    const NodeIndex node = tree_.add(parent, token);
    tree_.set_confidence(node, confidence);
    return node;
  }
  // The text that is shown anew; "-" if nothing has changed.
  std::string update(std::vector<TokenId> stop_ids = {}) {
    const auto shown = provisional_.update(stop_ids);
    return shown ? shown->text : "-";
  }

  MirroredTree tree_{{7, 7}};
  Letters text_;
  ProvisionalText provisional_{tree_, text_};
};

TEST_F(ProvisionalTextTest, IsTheLikeliestBranchAndToldOnce) {
  const NodeIndex likely = grow(kRoot, 1, 0.6f);
  grow(kRoot, 2, 0.3f);
  grow(likely, 3, 0.5f);
  EXPECT_EQ(update(), "bd");
  EXPECT_EQ(update(), "-");
  grow(kRoot, 4, 0.9f);
  EXPECT_EQ(update(), "e") << "likelier than what was shown";
}

TEST_F(ProvisionalTextTest, IsToldAnewBehindEveryVerdict) {
  grow(grow(kRoot, 1, 0.6f), 3, 0.5f);
  EXPECT_EQ(update(), "bd");
  tree_.commit(std::vector<TokenId>{1});
  EXPECT_EQ(update(), "d") << "the committed token is text now";
  tree_.commit(std::vector<TokenId>{5});
  EXPECT_EQ(update(), "");
}

TEST_F(ProvisionalTextTest, EndsBeforeAStopTokenAndWithTheAnswer) {
  grow(grow(kRoot, 1, 0.6f), 3, 0.5f);
  EXPECT_EQ(update({3}), "b");
  const auto end = provisional_.end();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->text, "");
  EXPECT_FALSE(provisional_.end().has_value());
}

// An answer of 12 tokens that nothing speculates; the test runs the draft's steps and plays the
// verifier. It is due after 100 ms.
class DeadlineTest : public testing::Test {
 protected:
  using Ids = std::vector<TokenId>;

  DeadlineTest() {
    DecodingOptions options;
    options.speculation.first.strategy = Strategy::kAr;
    options.speculation.end_position = 15;
    options.stop_ids = {12};
    session_ = std::make_unique<DecodingSession>(options, Ids{1, 2, 3}, drafter_, text_);
    deadline_ = std::make_unique<DeadlineDecorator>(*session_, *session_, drafter_, text_, at(100));
    take(deadline_->start(at(0)));
    handle(FromVerifier{1, ServerMessage(SessionHarness::target())});
  }

  static TimePoint at(double ms) { return TimePoint() + from_ms(ms); }
  void handle(const SessionEvent& event) { take(deadline_->handle(event, at(ms_))); }
  void tick(double ms) {
    ms_ = ms;
    handle(Tick{});
  }
  void take(SessionActions actions) {
    for (SessionAction& action : actions) {
      if (auto* run = std::get_if<RunDraftStep>(&action)) steps_.push_back(std::move(run->step));
      if (auto* guess = std::get_if<Provisional>(&action)) given_.push_back(*guess);
    }
    ASSERT_LE(steps_.size(), 1u) << "one step at a time";
  }
  // Runs at most so many steps of the draft.
  void draft(int steps = 1000) {
    for (int i = 0; i < steps && !steps_.empty(); ++i) {
      const DraftStep step = std::move(steps_.back());
      steps_.pop_back();
      handle(DraftStepFinished{engine_->run(step)});
    }
  }
  void target_says(TokenId token) {
    const Position end = session_->tree().end();
    handle(FromVerifier{1, ServerMessage(Started{.pass = pass_, .position = end})});
    handle(FromVerifier{
        1, ServerMessage(Verdict{.pass = pass_++, .position = end, .tokens = {token}, .rows = 1})});
  }
  // The draft's guess of the rest, up to a token that ends the answer.
  std::string rest() const {
    const std::span<const TokenId> text = session_->text();
    const Ids all = toy_.decode(text, 15, {}, 0, Ids{12});
    return Letters::of(std::span(all).subspan(text.size()));
  }

  ManualClock clock_;
  ToyModel toy_{13};
  ToyDraft draft_{toy_};
  Letters text_;
  Drafter drafter_{{.max_positions = 1000, .vocab_size = 13}};
  std::unique_ptr<DraftEngine> engine_ = *DraftEngine::create(draft_, clock_, 1300);
  std::unique_ptr<DecodingSession> session_;
  std::unique_ptr<DeadlineDecorator> deadline_;
  std::vector<DraftStep> steps_;
  std::vector<Provisional> given_;
  std::uint32_t pass_ = 0;
  double ms_ = 1;  // of the clock
};

TEST_F(DeadlineTest, TheDraftGoesOnToTheAnswersEndWhichIsGivenOnceWhenItIsDue) {
  EXPECT_LE(deadline_->next_tick(), at(100));
  draft();
  EXPECT_TRUE(given_.empty());
  tick(100);
  ASSERT_EQ(given_.size(), 1u);
  EXPECT_EQ(given_[0].text, rest());
  EXPECT_TRUE(given_[0].by_deadline);
  EXPECT_TRUE(given_[0].whole);
  tick(101);
  target_says(5);
  draft();
  EXPECT_EQ(given_.size(), 1u);
  EXPECT_EQ(deadline_->next_tick(), session_->next_tick());
}

TEST_F(DeadlineTest, WhatTheTargetHasDecidedComesFirst) {
  draft();
  const TokenId other = rest().front() == 'a' + 5 ? 6 : 5;
  target_says(other);
  draft();
  tick(100);
  ASSERT_TRUE(deadline_->given());
  EXPECT_EQ(given_[0].text, rest());
  EXPECT_EQ(deadline_->given()->text, Letters::of(Ids{other}) + rest());
  EXPECT_EQ(deadline_->given()->verified, 1u);
  EXPECT_EQ(deadline_->given()->at, at(100));
}

TEST_F(DeadlineTest, ADraftThatIsNotThereYetGivesWhatItHas) {
  draft(3);
  tick(100);
  ASSERT_EQ(given_.size(), 1u);
  EXPECT_FALSE(given_[0].whole);
  EXPECT_FALSE(given_[0].text.empty());
  EXPECT_LT(given_[0].text.size(), rest().size());
  EXPECT_TRUE(rest().starts_with(given_[0].text));
}

TEST_F(DeadlineTest, AnAnswerThatIsWholeInTimeGivesNothing) {
  for (int i = 0; i < 12; ++i) target_says(5);
  ASSERT_TRUE(session_->decided());
  EXPECT_EQ(deadline_->next_tick(), session_->next_tick());
  tick(100);
  EXPECT_TRUE(given_.empty());
  EXPECT_FALSE(deadline_->given());
}

}  // namespace
}  // namespace outrider
