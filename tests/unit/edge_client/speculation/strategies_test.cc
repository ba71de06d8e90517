// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/decoding/drafting/hypothesis_tree.h"

namespace outrider {
namespace {

using testing::HasSubstr;

// A strategy beside a tree whose root has three guesses, of tokens 5, 6 and 7.
class StrategyTest : public testing::Test {
 protected:
  explicit StrategyTest(const SpeculationOptions& options) : strategy_(make_strategy(options)) {
    nodes_.restart(std::vector<TokenId>{1, 2, 3});
    nodes_.add_guesses(kRoot, {{5, 0.5f}, {6, 0.3f}, {7, 0.1f}});
  }

  NodeIndex guess(TokenId token) const { return nodes_.tree().child(kRoot, token); }
  double weight(NodeIndex node) { return nodes_.weighed().weight(node); }
  double worth(const GrowthPolicy& policy, NodeIndex node) {
    return policy.worth(nodes_.weighed(), node);
  }
  double worth_ahead(NodeIndex node, const Timings& timings = {}) {
    return worth(*strategy_->grow_ahead(timings), node);
  }
  // The first guess is in flight, and an exit says that 6 comes instead.
  void exit_names_the_second() {
    nodes_.send(std::vector{guess(5)});
    nodes_.on_pass_started(1, {});
    nodes_.advise({.leaf = kRoot, .token = 6, .probability = 0.8, .exit = 0});
  }
  void expect_that_nothing_leaves_early() const {
    EXPECT_EQ(strategy_->select_ahead({.room = 64, .link_room = 1e6}, {}), std::nullopt);
  }
  void expect_two_chains_of_four() {
    EXPECT_EQ(strategy_->round().length, 4u);
    EXPECT_EQ(strategy_->round().branches, 2u);
    const std::unique_ptr<GrowthPolicy> growth = strategy_->grow_round(strategy_->round());
    EXPECT_EQ(growth->fan_out(), 2) << "each row brings as many guesses as there are chains";
    EXPECT_GT(worth(*growth, guess(5)), 0);
    EXPECT_GT(worth(*growth, guess(6)), 0);
    EXPECT_EQ(worth(*growth, guess(7)), 0);
  }

  std::unique_ptr<SpeculationStrategy> strategy_;
  HypothesisTree nodes_;
};

// --- ar -----------------------------------------------------------------------------------------

class ArStrategyTest : public StrategyTest {
 protected:
  ArStrategyTest() : StrategyTest({.strategy = Strategy::kAr}) {}
};

TEST_F(ArStrategyTest, TheTargetGoesOnAloneAndNothingIsDrafted) {
  EXPECT_EQ(strategy_->pass_policy(), (Policy{.pass_policy = PassPolicy::kEager}));
  EXPECT_FALSE(strategy_->speculates());
  EXPECT_EQ(strategy_->round().length, 0u);
  EXPECT_EQ(strategy_->wait_for(), 0u);
  EXPECT_FALSE(strategy_->grow_round(strategy_->round())->wants_root());
  EXPECT_FALSE(strategy_->drafts_ahead({}));
  expect_that_nothing_leaves_early();
}

// --- sd -----------------------------------------------------------------------------------------

class SdStrategyTest : public StrategyTest {
 protected:
  SdStrategyTest() : StrategyTest({.strategy = Strategy::kSd, .branches = 2}) {}
};

TEST_F(SdStrategyTest, EveryPassWaitsForAWholeRound) {
  EXPECT_EQ(strategy_->pass_policy(), (Policy{.pass_policy = PassPolicy::kOnRequest}));
  EXPECT_TRUE(strategy_->speculates());
  EXPECT_EQ(strategy_->wait_for(), 4u);
  expect_two_chains_of_four();
}

TEST_F(SdStrategyTest, NothingIsDraftedBeforeTheVerdict) {
  strategy_->on_target(true);
  EXPECT_FALSE(strategy_->drafts_ahead({}));
  expect_that_nothing_leaves_early();
  EXPECT_EQ(strategy_->on_verdict({.tokens = 1}, {}), std::nullopt);
}

TEST_F(SdStrategyTest, InTurnsTheTargetReadsThePromptAlone) {
  EXPECT_FALSE(strategy_->takes_turns());
  EXPECT_TRUE(make_strategy({.strategy = Strategy::kSd, .takes_turns = true})->takes_turns());
}

// --- fsd ----------------------------------------------------------------------------------------

class FsdStrategyTest : public StrategyTest {
 protected:
  FsdStrategyTest() : StrategyTest({.strategy = Strategy::kFsd, .branches = 2}) {}
};

TEST_F(FsdStrategyTest, EveryPassWaitsForAWholeRoundAndExitsLookAtIt) {
  EXPECT_EQ(strategy_->pass_policy(),
            (Policy{.pass_policy = PassPolicy::kOnRequest, .wants_exits = true}));
  EXPECT_TRUE(strategy_->speculates());
  EXPECT_EQ(strategy_->wait_for(), 4u);
  expect_two_chains_of_four();
}

TEST_F(FsdStrategyTest, WithoutExitsNothingIsDraftedAhead) {
  EXPECT_FALSE(strategy_->drafts_ahead({}));
  strategy_->on_target(true);
  EXPECT_TRUE(strategy_->drafts_ahead({}));
  strategy_->on_target(false);
  EXPECT_FALSE(strategy_->drafts_ahead({})) << "the answer went on with another target";
}

TEST_F(FsdStrategyTest, OnlyOutcomesThatAnExitNamedAreDraftedAndNothingLeavesEarly) {
  strategy_->on_target(true);
  exit_names_the_second();
  EXPECT_EQ(worth_ahead(guess(5)), 0) << "in flight";
  EXPECT_GT(worth_ahead(guess(6)), 0);
  EXPECT_EQ(worth_ahead(guess(7)), 0) << "the draft's own guess";
  EXPECT_EQ(strategy_->grow_ahead({})->fan_out(), 1);
  expect_that_nothing_leaves_early();
}

// --- mirror -------------------------------------------------------------------------------------

class MirrorStrategyTest : public StrategyTest {
 protected:
  explicit MirrorStrategyTest(Optimize optimize = Optimize::kLatency)
      : StrategyTest(
            {.strategy = Strategy::kMirror, .gamma = 4, .fan_out = 3, .optimize = optimize}) {}

  static Timings far_server() {
    Timings known;
    known.draft_step.add(1, from_ms(1));
    for (std::size_t rows = 1; rows <= 5; ++rows) known.plain_pass.add(rows, from_ms(20));
    known.on_request_served(from_ms(150));
    return known;
  }
  // Verdicts of which two of four drafted tokens stand, one every 30 ms. Returns the last change.
  std::optional<PlanChange> play_verdicts(const Timings& timings) {
    std::optional<PlanChange> last;
    for (int i = 0; i < 10; ++i) {
      now_ += from_ms(30);
      if (auto change =
              strategy_->on_verdict({.tokens = 3, .depth = 4, .stood = 2, .now = now_}, timings)) {
        last = change;
      }
    }
    return last;
  }
  AheadSelection select(const SendingView& view, const Timings& timings) const {
    return strategy_->select_ahead(view, timings).value_or(AheadSelection{});
  }

  TimePoint now_{};
};

class CheapMirrorTest : public MirrorStrategyTest {
 protected:
  CheapMirrorTest() : MirrorStrategyTest(Optimize::kCost) {}
};

TEST_F(MirrorStrategyTest, TheTargetGoesOnAndTheFirstRoundIsWhole) {
  EXPECT_EQ(strategy_->pass_policy().pass_policy, PassPolicy::kEager);
  EXPECT_EQ(strategy_->pass_policy().patience, Duration{0});
  EXPECT_TRUE(strategy_->speculates());
  EXPECT_EQ(strategy_->round().length, 4u);
  EXPECT_EQ(strategy_->round().branches, 1u);
  EXPECT_EQ(strategy_->wait_for(), 4u);
  EXPECT_EQ(strategy_->grow_round(strategy_->round())->fan_out(), 3) << "runners-up are kept";
}

TEST_F(MirrorStrategyTest, InTurnsNothingIsDraftedAhead) {
  strategy_ = make_strategy({.strategy = Strategy::kMirror, .gamma = 4, .takes_turns = true});
  EXPECT_TRUE(strategy_->takes_turns());
  EXPECT_FALSE(strategy_->speculates()) << "the target begins alone";
  EXPECT_FALSE(strategy_->drafts_ahead({}));
  expect_that_nothing_leaves_early();
  EXPECT_EQ(strategy_->wait_for(), 4u) << "rounds end by the draft's confidence";
}

TEST_F(MirrorStrategyTest, AFarTargetIsNotKeptWaitingAndTheChangeIsTold) {
  const std::optional<PlanChange> change = play_verdicts(far_server());
  ASSERT_TRUE(change);
  EXPECT_EQ(change->wait_for, 0);
  EXPECT_TRUE(change->speculates);
  EXPECT_THAT(change->reason, HasSubstr("the round trip 150.0 ms"));
  EXPECT_EQ(strategy_->wait_for(), 1u) << "what is drafted after a miss leaves token by token";
  EXPECT_EQ(strategy_->on_verdict({.tokens = 3, .depth = 4, .stood = 2, .now = now_ + from_ms(30)},
                                  far_server()),
            std::nullopt)
      << "nothing changed";
}

TEST_F(MirrorStrategyTest, EveryLikelyOutcomeIsDraftedByItsChance) {
  exit_names_the_second();
  const std::unique_ptr<GrowthPolicy> growth = strategy_->grow_ahead({});
  EXPECT_TRUE(growth->wants_root());
  EXPECT_EQ(growth->fan_out(), 3);
  EXPECT_GT(worth(*growth, guess(6)), worth(*growth, guess(7)));
  EXPECT_GT(worth(*growth, guess(7)), 0) << "no exit named it";
}

TEST_F(MirrorStrategyTest, TheFirstTokenOfARoundIsWorthTheWaitThatItSpares) {
  exit_names_the_second();
  const NodeIndex outcome = guess(6);
  EXPECT_NEAR(worth_ahead(outcome), 1.5 * weight(outcome), 1e-9) << "at least, while unmeasured";
  Timings near_server;
  near_server.draft_step.add(1, from_ms(10));
  near_server.on_request_served(from_ms(20));
  EXPECT_NEAR(worth_ahead(outcome, near_server), 3 * weight(outcome), 1e-6);
  EXPECT_NEAR(worth_ahead(outcome, far_server()), 5 * weight(outcome), 1e-9) << "at most";
}

TEST_F(MirrorStrategyTest, RoundsLeaveWholeUntilTheNextStepWouldBeLate) {
  const Timings timings = far_server();
  SendingView view{.now = now_ + from_ms(10),
                   .pass_origin = now_,
                   .rows_in_flight = 4,
                   .room = 30,
                   .link_room = 500,
                   .draft_works = true};
  const AheadSelection early = select(view, timings);
  EXPECT_FALSE(early.limits.due);
  EXPECT_EQ(early.limits.whole, 4u);
  EXPECT_EQ(early.limits.least, 1u);
  EXPECT_EQ(early.limits.room, 30u);
  EXPECT_EQ(early.limits.link_room, 500);
  view.now = now_ + from_ms(18.5);  // of a pass of 20 ms; a step takes 1 ms, and 1 ms is slack
  EXPECT_TRUE(select(view, timings).limits.due);
  EXPECT_FALSE(select(view, {}).limits.due) << "no pass was measured yet";
  view.now = now_ + from_ms(10);
  view.draft_works = false;
  EXPECT_TRUE(select(view, timings).limits.due) << "nothing more is coming";
}

TEST_F(MirrorStrategyTest, ATargetThatIsFurtherThanItsVerdictIsReachedByLongerRounds) {
  EXPECT_EQ(select({}, far_server()).round.most, 4u) << "its pace is not known";
  play_verdicts(far_server());
  const AheadSelection far = select({}, far_server());
  EXPECT_EQ(far.round.most, 3 * far.limits.whole) << "150 ms are 15 tokens; bounded";
}

TEST_F(CheapMirrorTest, EveryPassWaitsForAWholeRound) {
  EXPECT_EQ(strategy_->pass_policy(),
            (Policy{.pass_policy = PassPolicy::kOnRequest, .wants_exits = true}));
  EXPECT_EQ(play_verdicts(far_server()), std::nullopt);
  EXPECT_EQ(strategy_->wait_for(), 4u);
  EXPECT_EQ(select({}, far_server()).limits.least, 4u) << "half a round would cost a pass";
}

}  // namespace
}  // namespace outrider
