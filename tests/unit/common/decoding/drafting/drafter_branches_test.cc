// Rounds of several chains. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "common/decoding/drafting/drafter.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Ids = std::vector<TokenId>;

// A draft that guesses 5 or else 6 after the text, and after any token t of its own t + 10 or else
// t + 40. Rounds have two chains of three tokens.
class BranchesTest : public testing::Test {
 protected:
  BranchesTest() { restart(1); }

  void restart(int workers) {
    drafter_ = std::make_unique<Drafter>(
        DrafterOptions{.max_positions = 100, .vocab_size = 100, .workers = workers});
    drafter_->restart(Ids{1, 2, 3});
  }
  // Runs one step; returns the tokens of its rows.
  Ids step() {
    const std::optional<DraftStep> step = drafter_->grow(RoundPolicy(kRound), 100);
    if (!step) return {};
    Ids rows;
    DraftStepDone done;
    if (step->guess_after_catch_up) done.guesses.push_back({{5, 0.5f}, {6, 0.3f}});
    for (const DraftRow& row : step->grow) {
      rows.push_back(row.token);
      done.slots.push_back(next_slot_++);
      done.guesses.push_back({{row.token + 10, 0.6f}, {row.token + 40, 0.3f}});
    }
    drafter_->finish_step(done);
    return rows;
  }
  void draft_all() {
    for (int i = 0; i < 16 && !drafter_->round_is_whole(kRound); ++i) step();
  }
  // The tokens that are sent and, for each, how many ids before it its parent is.
  std::pair<Ids, std::vector<std::uint32_t>> send(std::size_t room = 64, std::int32_t bound = 100) {
    std::pair<Ids, std::vector<std::uint32_t>> sent;
    for (const GrowNode& node : drafter_->nodes().send_round(kRound, room, bound).nodes) {
      sent.first.push_back(node.token);
      sent.second.push_back(node.parent);
    }
    return sent;
  }

  static constexpr RoundShape kRound{.length = 3, .branches = 2};
  std::unique_ptr<Drafter> drafter_;
  Slot next_slot_ = 0;
};

TEST_F(BranchesTest, TheLikelierChainIsDraftedFirst) {
  EXPECT_THAT(step(), IsEmpty()) << "the text is read";
  EXPECT_THAT(step(), ElementsAre(5));
  EXPECT_THAT(step(), ElementsAre(15));
  EXPECT_FALSE(drafter_->round_is_whole(kRound)) << "the second chain is one token long";
  EXPECT_TRUE(drafter_->round_is_whole({.length = 3})) << "alone the first would be";
  EXPECT_THAT(step(), ElementsAre(6));
  EXPECT_THAT(step(), ElementsAre(16));
  EXPECT_TRUE(drafter_->round_is_whole(kRound));
  EXPECT_EQ(drafter_->grow(RoundPolicy(kRound), 100), std::nullopt);
}

TEST_F(BranchesTest, OneStepServesBothChains) {
  restart(2);
  step();
  EXPECT_THAT(step(), ElementsAre(5, 6));
  EXPECT_THAT(step(), ElementsAre(15, 16));
  EXPECT_TRUE(drafter_->round_is_whole(kRound));
}

TEST_F(BranchesTest, ChainsAreSentOneAfterTheOther) {
  draft_all();
  const auto [tokens, parents] = send();
  EXPECT_THAT(tokens, ElementsAre(5, 15, 25, 6, 16, 26));
  EXPECT_THAT(parents, ElementsAre(0, 1, 1, 0, 1, 1));
  EXPECT_THAT(send().first, IsEmpty()) << "all were sent";
}

TEST_F(BranchesTest, TheLikelierChainIsSentWhereThereIsNoRoomForBoth) {
  draft_all();
  EXPECT_THAT(send(4).first, ElementsAre(5, 15, 25, 6));
}

TEST_F(BranchesTest, ATokenThatTheTargetDoesNotHaveEndsItsOwnChainOnly) {
  draft_all();
  EXPECT_THAT(send(64, 25).first, ElementsAre(5, 15, 6, 16));
}

TEST_F(BranchesTest, AVerdictAlongTheSecondChainKeepsWhatHangsUnderIt) {
  draft_all();
  send();
  drafter_->nodes().on_pass_started(3, {});  // the first chain's nodes only
  EXPECT_EQ(drafter_->nodes().rows_in_flight(), 3u);
  EXPECT_EQ(drafter_->commit(Ids{6}), 0u) << "no node died that was not a row";
  const NodeIndex next = drafter_->tree().child(kRoot, 16);
  ASSERT_NE(next, kNoNode);
  EXPECT_NE(drafter_->tree().child(next, 26), kNoNode);
  EXPECT_EQ(drafter_->tree().child(kRoot, 15), kNoNode);
}

TEST_F(BranchesTest, NodesOfAChainThatNoPassTookDieUnused) {
  draft_all();
  send();
  drafter_->nodes().on_pass_started(3, {});
  EXPECT_EQ(drafter_->commit(Ids{5}), 3u);
}

TEST_F(BranchesTest, AfterAVerdictTheNextRoundHasTwoChainsAgain) {
  draft_all();
  drafter_->commit(Ids{5, 15});  // under them hangs what was guessed: 25 and 55
  draft_all();
  EXPECT_THAT(send().first, ElementsAre(25, 35, 45, 55, 65, 75));
}

}  // namespace
}  // namespace outrider
