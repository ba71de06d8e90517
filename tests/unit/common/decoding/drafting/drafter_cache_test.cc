// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "common/decoding/drafting/draft_engine.h"
#include "common/decoding/drafting/drafter.h"
#include "tests/sim/toy_draft.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Ids = std::vector<TokenId>;

// A round of three is in flight; what is drafted ahead for its outcomes?
class CacheTest : public testing::Test {
 protected:
  void begin(DrafterOptions options, PredraftOptions ahead) {
    options.max_positions = 1000;
    options.vocab_size = 13;
    drafter_ = std::make_unique<Drafter>(options);
    ahead_ = ahead;
    engine_ = *DraftEngine::create(model_, clock_, 1400);
    const Ids prompt{1, 2, 3};
    drafter_->restart(prompt);
    const RoundPolicy chain({.length = 3}, ahead.fan_out);
    while (std::optional<DraftStep> step = drafter_->grow(chain, 100)) run(*step);
    round_ = drafter_->nodes().send_round({.length = 3}, 64, 13);
    drafter_->nodes().on_pass_started(3, {});
  }

  void run(const DraftStep& step) {
    Result<DraftStepDone> done = engine_->run(step);
    ASSERT_TRUE(done.ok()) << done.status().to_string();
    drafter_->finish_step(*done);
    ++steps_;
  }
  std::optional<DraftStep> ahead() { return drafter_->grow(PredraftPolicy(ahead_), 100); }
  void draft_ahead(int most) {
    for (int i = 0; i < most; ++i) {
      const std::optional<DraftStep> step = ahead();
      if (!step) return;
      run(*step);
    }
  }

  // The draft's own text after these tokens.
  Ids after(const Ids& text, std::size_t count) const {
    const Ids all = target_.decode(text, static_cast<Position>(text.size() + count), {}, 0);
    return {all.begin() + static_cast<std::ptrdiff_t>(text.size()), all.end()};
  }
  Ids text_with(const Ids& more) const {
    Ids text(drafter_->tree().text().begin(), drafter_->tree().text().end());
    text.insert(text.end(), more.begin(), more.end());
    return text;
  }
  // The outcome that ends after `walked` drafted tokens with a token of the fan-out's second rank.
  Ids outcome(std::size_t walked) const {
    Ids tokens;
    NodeIndex at = kRoot;
    for (std::size_t i = 0; i < walked; ++i) {
      tokens.push_back(round_.nodes[i].token);
      at = drafter_->tree().child(at, tokens.back());
    }
    for (const NodeIndex child : drafter_->tree().children(at)) {
      if (drafter_->tree().node(child).id != 0) continue;
      tokens.push_back(drafter_->tree().node(child).token);
      return tokens;
    }
    return {};
  }
  NodeIndex node_of(const Ids& tokens) const {
    NodeIndex at = kRoot;
    for (const TokenId token : tokens) at = drafter_->tree().child(at, token);
    return at;
  }
  TokenId unguessed(NodeIndex parent) const {
    for (TokenId token = 0; token < 13; ++token) {
      if (drafter_->tree().child(parent, token) == kNoNode) return token;
    }
    return -1;
  }

  ManualClock clock_;
  ToyModel target_{13};
  ToyDraft model_{target_};
  PredraftOptions ahead_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<DraftEngine> engine_;
  Grow round_;
  int steps_ = 0;
};

TEST_F(CacheTest, FanOutKnowsSeveralOutcomesAtEachDepthWithoutAStep) {
  begin({}, {.gamma = 3, .fan_out = 3});
  EXPECT_THAT(round_.nodes, SizeIs(3));
  EXPECT_THAT(drafter_->tree().children(kRoot), SizeIs(3));
  EXPECT_EQ(steps_, 3);
}

TEST_F(CacheTest, AHitIsTheNextRoundWithoutAStep) {
  begin({}, {.gamma = 3, .fan_out = 2});
  const Ids tokens = outcome(1);
  drafter_->advise({.leaf = node_of({tokens[0]}), .token = tokens[1], .probability = 0.9});
  draft_ahead(60);
  const CacheLookup found = drafter_->look_up(tokens, {.most = 99});
  EXPECT_TRUE(found.named);
  ASSERT_GE(found.drafted, 3u);
  const Ids expected = after(text_with(tokens), 3);
  drafter_->commit(tokens);
  const Grow next = drafter_->nodes().send_round({.length = 3}, 64, 13);
  Ids sent;
  for (const GrowNode& node : next.nodes) sent.push_back(node.token);
  EXPECT_EQ(sent, expected) << "what was drafted ahead is what the draft would write";
}

TEST_F(CacheTest, WhatWasDraftedForOthersIsForgottenAndItsKvFreed) {
  begin({}, {.gamma = 3, .fan_out = 3});
  draft_ahead(60);
  drafter_->commit(outcome(1));
  const std::size_t kept = drafter_->tree().size();
  EXPECT_LT(kept, 100u);
  for (int round = 0; round < 40; ++round) {  // leaked slots would fill the cache of 1400
    drafter_->nodes().on_pass_started(0, {});
    draft_ahead(30);
    drafter_->commit(Ids{drafter_->tree().node(drafter_->tree().children(kRoot)[0]).token});
  }
}

TEST_F(CacheTest, AnExitsOutcomeIsDraftedFirst) {
  begin({}, {.gamma = 3, .fan_out = 2});
  const NodeIndex leaf = node_of({round_.nodes[0].token});
  const TokenId token = unguessed(leaf);
  drafter_->advise({.leaf = leaf, .token = token, .probability = 0.9, .exit = 2});
  draft_ahead(1);
  const CacheLookup found = drafter_->look_up(Ids{round_.nodes[0].token, token}, {.most = 99});
  EXPECT_EQ(found.drafted, 1u);
  EXPECT_EQ(found.exit, 2);
}

TEST_F(CacheTest, AnExitsOutcomeMayLieBehindNodesOfTheServersOwn) {
  begin({}, {.gamma = 3, .fan_out = 2});
  const NodeIndex leaf = node_of({round_.nodes[0].token});
  const TokenId token = unguessed(leaf);
  drafter_->advise({.leaf = leaf, .path = {token, 5}, .token = 6, .probability = 0.9, .exit = 2});
  draft_ahead(3);
  const CacheLookup found =
      drafter_->look_up(Ids{round_.nodes[0].token, token, 5, 6}, {.most = 99});
  EXPECT_GE(found.drafted, 1u);
  EXPECT_EQ(found.exit, 2);
}

TEST_F(CacheTest, AnOutcomeUnderTheUndraftedLastNodeTakesOneStepForBothRows) {
  begin({}, {.gamma = 3, .fan_out = 1, .exits_only = true});
  EXPECT_EQ(ahead(), std::nullopt) << "nothing is named";
  const Ids walk{round_.nodes[0].token, round_.nodes[1].token, round_.nodes[2].token};
  drafter_->advise({.leaf = node_of(walk), .token = 7, .probability = 0.5});
  const std::optional<DraftStep> step = ahead();
  ASSERT_TRUE(step);
  ASSERT_THAT(step->grow, SizeIs(2));
  EXPECT_EQ(step->grow[1].parent_row, 0);
  run(*step);
  Ids tokens = walk;
  tokens.push_back(7);
  EXPECT_EQ(drafter_->tree().node(drafter_->tree().children(node_of(tokens))[0]).token,
            after(text_with(tokens), 1)[0]);
}

TEST_F(CacheTest, AVerdictDuringSuchAStepKeepsBothItsRows) {
  begin({}, {.gamma = 3, .fan_out = 1, .exits_only = true});
  Ids tokens{round_.nodes[0].token, round_.nodes[1].token, round_.nodes[2].token};
  drafter_->advise({.leaf = node_of(tokens), .token = 7, .probability = 0.5});
  const std::optional<DraftStep> step = ahead();
  tokens.push_back(7);
  EXPECT_TRUE(drafter_->look_up(tokens, {.most = 99}).in_step);
  const Ids expected = after(text_with(tokens), 3);
  drafter_->commit(tokens);
  run(*step);
  const std::size_t rows = model_.rows_run();
  const RoundPolicy chain({.length = 3});
  while (std::optional<DraftStep> more = drafter_->grow(chain, 100)) run(*more);
  EXPECT_EQ(model_.rows_run() - rows, 2u) << "the step's rows are of use";
  Ids sent;
  for (const GrowNode& node : drafter_->nodes().send_round({.length = 3}, 64, 13).nodes)
    sent.push_back(node.token);
  EXPECT_EQ(sent, expected);
}

TEST_F(CacheTest, OneStepServesSeveralHypothesesWhereThePolicyAllows) {
  for (const std::size_t most_rows : {3u, 1u}) {
    begin({.workers = 3}, {.gamma = 3, .fan_out = 3, .exits_only = true, .most_rows = most_rows});
    for (std::int32_t exit = 0; exit < 3; ++exit) {
      drafter_->advise({.leaf = kRoot,
                        .token = unguessed(kRoot),
                        .probability = 0.3 + 0.1 * exit,
                        .exit = exit});
    }
    const std::optional<DraftStep> step = ahead();
    ASSERT_TRUE(step);
    EXPECT_THAT(step->grow, SizeIs(most_rows));
    run(*step);
  }
}

TEST_F(CacheTest, QueuesDifferInOrderOnly) {
  std::vector<Ids> orders;
  for (const QueueOrder order : {QueueOrder::kPriority, QueueOrder::kFifo, QueueOrder::kRandom}) {
    begin({}, {.gamma = 1, .fan_out = 1, .order = order, .exits_only = true});
    Ids named;
    for (const double confidence : {0.2, 0.8, 0.5, 0.6}) {
      named.push_back(unguessed(kRoot));
      drafter_->advise({.leaf = kRoot, .token = named.back(), .probability = confidence});
    }
    Ids first_to_last;
    while (const std::optional<DraftStep> step = ahead()) {
      const auto at = std::ranges::find(named, step->grow.at(0).token);
      first_to_last.push_back(static_cast<TokenId>(at - named.begin()));
      run(*step);
    }
    orders.push_back(first_to_last);
  }
  EXPECT_THAT(orders[0], ElementsAre(1, 3, 2, 0));
  EXPECT_THAT(orders[1], ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(orders[2], testing::UnorderedElementsAre(0, 1, 2, 3));
}

TEST_F(CacheTest, TheBoundForgetsTheLeastLikelyAndNothingThatWasSent) {
  begin({.max_nodes = 12}, {.gamma = 3, .fan_out = 3});
  draft_ahead(40);
  EXPECT_LE(drafter_->tree().size(), 12u);
  EXPECT_GT(drafter_->nodes().evicted(), 0u);
  EXPECT_THAT(drafter_->tree().ids().living(), SizeIs(3));
}

TEST_F(CacheTest, RoundsAheadAreOfferedLikeliestFirstWithTheirParents) {
  begin({}, {.gamma = 2, .fan_out = 3});
  draft_ahead(40);
  const std::vector<DraftedRound> rounds = drafter_->nodes().rounds_ahead({.most = 2}, 13);
  ASSERT_GE(rounds.size(), 2u);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(rounds[i].unsent.size(), rounds[i].length + 1);
    if (i == 0) continue;
    EXPECT_GE(rounds[i - 1].chance, rounds[i].chance);
  }
  const Grow sent = drafter_->nodes().send(rounds[0].unsent);
  EXPECT_EQ(sent.first_id, 4u);
  EXPECT_EQ(drafter_->nodes().rounds_ahead({.most = 2}, 13).size(), rounds.size() - 1)
      << "it is sent";
}

TEST_F(CacheTest, NodesSentInVainAreCounted) {
  begin({}, {.gamma = 2, .fan_out = 3});
  draft_ahead(40);
  const std::vector<DraftedRound> rounds = drafter_->nodes().rounds_ahead({.most = 2}, 13);
  drafter_->nodes().send(rounds[0].unsent);
  EXPECT_EQ(drafter_->commit(Ids{unguessed(kRoot)}), rounds[0].unsent.size());
}

TEST_F(CacheTest, ARoundThatComesIsNotInVain) {
  begin({}, {.gamma = 2, .fan_out = 3});
  draft_ahead(40);
  const Ids tokens = outcome(0);
  for (const DraftedRound& round : drafter_->nodes().rounds_ahead({.most = 2}, 13)) {
    if (round.unsent[0] == node_of(tokens)) drafter_->nodes().send(round.unsent);
  }
  EXPECT_TRUE(drafter_->look_up(tokens, {.most = 99}).sent_id != 0);
  EXPECT_EQ(drafter_->commit(tokens), 0u);
  EXPECT_THAT(drafter_->tree().ids().living(), SizeIs(2));
  EXPECT_THAT(drafter_->nodes().send_round({.length = 2}, 64, 13).nodes, IsEmpty());
}

}  // namespace
}  // namespace outrider
