// Pruning through the scheduler: which rows go to the end of a pass, and that no text changes.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/branch_pruner.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "tests/sim/toy_exits.h"
#include "tests/unit/common/decoding/verify/scheduler_fixture.h"

namespace outrider {
namespace {

class BranchPrunerTest : public SchedulerTest {
 protected:
  // One round: two children of the root with two children each, the target's own choice first or
  // left out.
  void grow(StreamId stream, const Open& open, bool with_choice) {
    const MirroredTree& tree = scheduler().session(stream)->tree();
    std::vector<TokenId> text(tree.text().begin(), tree.text().end());
    std::vector<GrowNode> nodes;
    NodeId id = tree.ids().last_id();
    const NodeId first = id + 1;
    const auto add = [&](NodeId parent, TokenId token) {  // 0: below the root
      ++id;
      const auto back = static_cast<std::uint32_t>(parent == 0 ? 0 : id - parent);
      nodes.push_back({.token = token, .parent = back, .confidence = 128});
      return id;
    };
    const auto choice = choose(model_.logits_after(text), open.sampling, open.seed, tree.end());
    const TokenId other = (choice + 1) % 8, third = (choice + 2) % 8;
    const NodeId a = add(0, with_choice ? choice : third), b = add(0, other);
    for (const NodeId parent : {a, b}) {
      add(parent, 1);
      add(parent, 2);
    }
    scheduler().receive(stream, {tree.end(), 0, Grow{first, tree.end(), nodes}}, now());
  }
  // The whole answer with such rounds.
  std::vector<TokenId> decode(const Open& asked) {
    open(1, asked);
    for (bool with_choice = true; turn() != 0; with_choice = !with_choice) {
      if (scheduler().session(1) == nullptr || ended(1)) break;
      grow(1, asked, with_choice);
    }
    return answer(1);
  }

  ToyExits exits_{model_};
};

TEST_F(BranchPrunerTest, EndsBranchesAndChangesNoText) {
  options_.exits = &exits_;
  options_.prune_below = 0.4;
  Open asked = open_message({1, 2, 3}, 60);
  asked.sampling.temperature = 0.8f;
  asked.seed = 7;
  EXPECT_EQ(decode(asked), expected(asked));
  const PruneCounts counts = scheduler().stats().pruned;
  EXPECT_GT(counts.passes, 10u);
  EXPECT_GT(counts.rows, 5 * counts.passes);
  EXPECT_GT(counts.rows_ended, counts.rows / 10);
  EXPECT_LT(counts.rows_ended, counts.rows);
}

TEST_F(BranchPrunerTest, LogitsOnDemandAreAskedOfNoEndedRow) {
  options_.exits = &exits_;
  options_.prune_below = 0.4;
  options_.logits_on_demand = true;
  Open asked = open_message({1, 2, 3}, 60);
  asked.sampling.temperature = 0.8f;
  asked.seed = 7;
  EXPECT_EQ(decode(asked), expected(asked));
  const PruneCounts counts = scheduler().stats().pruned;
  EXPECT_GT(counts.rows_ended, counts.rows / 10);
  EXPECT_LT(model_.rows_demanded(), counts.passes + counts.rows - counts.rows_ended);
}

TEST_F(BranchPrunerTest, WithoutAThresholdEveryRowGoesToTheEnd) {
  options_.exits = &exits_;
  const Open asked = open_message({1, 2, 3}, 30);
  EXPECT_EQ(decode(asked), expected(asked));
  EXPECT_EQ(scheduler().stats().pruned.passes, 0u);
}

// Token t of a hidden state h has the logit h * t: with h = 1 larger ids are likelier, with -1
// smaller ones.
class SlopedExit final : public ExitHeads {
 public:
  std::span<const std::int32_t> layers() const override { return kLayers; }
  std::optional<std::int32_t> pruning_layer() const override { return 2; }
  void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) override {
    EXPECT_EQ(exit, 1u);
    ++computed_all;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = rows.row(i / kVocab)[0] * static_cast<float>(i % kVocab);
    }
  }
  void compute_some(std::size_t exit, const HiddenRows& rows, const TokensOfRows& wanted,
                    std::span<float> logits) override {
    ExitHeads::compute_some(exit, rows, wanted, logits);
    --computed_all;
    asked = wanted.rows;
  }
  DraftPrior prior(std::size_t, double) const override { return {}; }
  double confidence(std::size_t, double, std::span<const RowEvidence>) const override { return 1; }

  static constexpr std::int32_t kLayers[] = {3};
  static constexpr std::size_t kVocab = 20;
  int computed_all = 0;  // not for some tokens
  std::vector<std::vector<TokenId>> asked;
};

// The root's children are 9, 8 and 7; below 8 hangs 1 alone.
PassPlan with_branches(PassPlan plan, float confidence_of_1) {
  plan.tokens = {0};
  plan.nodes = {{.token = 9, .parent = -1, .confidence = 0.5f},
                {.token = 8, .parent = -1, .confidence = 0.5f},
                {.token = 7, .parent = -1, .confidence = 0.5f},
                {.token = 1, .parent = 1, .confidence = confidence_of_1}};
  return plan;
}

// Which rows of the plan go on.
std::vector<std::uint8_t> pass(BranchPruner& pruner, const PassPlan& plan,
                               const std::string& tenant = "alice") {
  static const Open open;
  pruner.begin(SlopedExit::kVocab);
  pruner.watch(open, tenant, plan, 0);
  EXPECT_TRUE(pruner.wants(2));
  EXPECT_FALSE(pruner.wants(3));
  const std::vector<float> hidden(5, 1.0f);
  std::vector<std::uint8_t> keep(5, 1);
  pruner.prune(
      {.layer = 2, .first = 0, .count = 5, .width = 1, .values = hidden.data(), .threads = nullptr},
      keep);
  return keep;
}

std::vector<std::uint8_t> pruned(SlopedExit& exit, const PassPlan& plan) {
  BranchPruner pruner(exit, 0.05, 4);
  return pass(pruner, with_branches(plan, 0.5f));
}

TEST(CandidatePruning, VerdictsKeepWhatTheExitDoubts) {
  SlopedExit exit;
  BranchPruner pruner(exit, 0.15, 4);
  PassPlan plan = with_branches({}, 0.9f);
  plan.candidates = {{{9, 1}, {8, 1}, {7, 1}}, {}, {{1, 1}, {6, 1}}, {}, {}};
  EXPECT_EQ(pass(pruner, plan).back(), 0) << "6 is likelier than 1 by e^5";
  plan.nodes.back().ended = true;
  // Behind the root stood 8, behind that 1, though its row had ended.
  const std::optional<TokenId> walk[] = {8, std::nullopt, 1, std::nullopt, std::nullopt};
  for (int verdict = 0; verdict < 50; ++verdict) {
    pruner.learn(plan, 0, [&](std::size_t row) { return walk[row]; });
  }
  EXPECT_EQ(pass(pruner, plan).back(), 1);
  EXPECT_EQ(pass(pruner, plan, "bob").back(), 0)
      << "what one tenant showed says nothing of another";
  pruner.learn(plan, 7, [](std::size_t) { return TokenId{8}; });  // of no rider that is watched
}

// LEVER's rule: neither the draft's confidence nor verdicts, nor the edges above.
TEST(CandidatePruning, AnEdgeByItsScoreAloneIsAsThePaperPrintsIt) {
  SlopedExit exit;
  BranchPruner pruner(exit, 0.15, 4, PruneRule::kEdges);
  PassPlan plan = with_branches({}, 0.99f);
  plan.candidates = {{{9, 1}, {8, 1}, {7, 1}}, {}, {{1, 1}, {6, 1}}, {}, {}};
  const std::optional<TokenId> walk[] = {8, std::nullopt, 1, std::nullopt, std::nullopt};
  for (int verdict = 0; verdict < 50; ++verdict) {
    EXPECT_EQ(pass(pruner, plan).back(), 0) << "6 is likelier than 1 by e^5";
    pruner.learn(plan, 0, [&](std::size_t row) { return walk[row]; });
  }
  BranchPruner warm(exit, 0.15, 4, PruneRule::kEdges, 4);
  EXPECT_EQ(pass(warm, plan).back(), 1) << "beside 6 the chance of 1 is .22";
  const BranchNode edges[] = {{-1, 0.9}, {-1, 0.8}, {-1, 0.5}, {2, 0.5}, {3, 0.5}};
  EXPECT_EQ(keep_branches(edges, 0.3)[4], 0) << "by the product, .125";
  EXPECT_EQ(keep_branches(edges, 0.3, PruneRule::kEdges)[4], 1);
}

TEST(CandidatePruning, ShadowsOfTheDraftJudgeALoneChildByItsRowsOfTheMatrixAlone) {
  SlopedExit exit;
  PassPlan plan;
  plan.candidates = {{{9, 1}, {8, 1}, {7, 1}}, {}, {{1, 1}}, {}, {}};
  EXPECT_THAT(pruned(exit, plan), testing::Each(1)) << "a lone candidate has no rival";
  EXPECT_EQ(exit.computed_all, 0);
  EXPECT_THAT(exit.asked,
              testing::ElementsAre(testing::ElementsAre(9, 8, 7), testing::ElementsAre(1)));
  plan.candidates[2].push_back({6, 1});
  EXPECT_THAT(pruned(exit, plan), testing::ElementsAre(1, 1, 1, 1, 0)) << "6 is likelier by e^5";
  EXPECT_THAT(exit.asked.back(), testing::ElementsAre(1, 6));
}

TEST(CandidatePruning, WithoutTheDraftsCandidatesTheExitsLikeliestAreTheShadows) {
  SlopedExit exit;
  EXPECT_THAT(pruned(exit, {}), testing::ElementsAre(1, 1, 1, 0, 0)) << "19 is likelier than all";
  EXPECT_EQ(exit.computed_all, 1);
}

TEST(EdgeChance, VerdictsTeachWhichWitnessKnows) {
  const EdgeChance untaught;
  EXPECT_DOUBLE_EQ(untaught.at(0.5, 0.5f), 0.5);
  EXPECT_NEAR(untaught.at(0.1, 0.9f), 0.5, 1e-6) << "both weigh the same";
  std::mt19937 random(1);
  std::uniform_real_distribution<double> even(0, 1);
  // A token stands as often as the draft says, or the exit; the other says anything.
  for (const bool draft_knows : {true, false}) {
    EdgeChance chance;
    for (int i = 0; i < 3000; ++i) {
      const double truth = 0.02 + 0.96 * even(random), noise = even(random);
      const double score = draft_knows ? noise : truth, confidence = draft_knows ? truth : noise;
      chance.learn(score, static_cast<float>(confidence), even(random) < truth);
    }
    for (const double truth : {0.1, 0.5, 0.9}) {
      for (const double noise : {0.05, 0.95}) {
        const double score = draft_knows ? noise : truth, confidence = draft_knows ? truth : noise;
        EXPECT_NEAR(chance.at(score, static_cast<float>(confidence)), truth, 0.15);
      }
    }
  }
}

TEST(EdgeChance, GoesOnWithWhatAnotherLearnt) {
  EdgeChance first;
  for (int i = 0; i < 500; ++i) first.learn(0.9, 0.1f, i % 4 == 0);
  const EdgeChance second(first.weights());
  EXPECT_NE(first.weights(), EdgeChance().weights());
  EXPECT_EQ(second.at(0.3, 0.6f), first.at(0.3, 0.6f));
}

TEST(EdgeChance, StaysFiniteAtTheEnds) {
  EdgeChance chance;
  for (int i = 0; i < 10000; ++i) chance.learn(i % 2, 1.0f - static_cast<float>(i % 2), i % 3 == 0);
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  chance.learn(nothing, std::numeric_limits<float>::quiet_NaN(), true);
  for (const double score : {0.0, 1.0, nothing}) {
    EXPECT_GT(chance.at(score, 0.0f), 0);
    EXPECT_LT(chance.at(score, 1.0f), 1);
  }
}

TEST_F(BranchPrunerTest, AnEndedNodeThatIsChosenGoesIntoTheNextPass) {
  VerifySession session(open_message({1, 2}), make_target(model_.info(), options_),
                        {.session_id = "s", .cached = 0, .prefill_chunk = 8}, now());
  session.start(now());
  session.finish([](std::size_t, Position) { return 5; }, {}, now());
  const Grow grow{1, session.tree().end(), {{3, 0, 255}, {4, 0, 255}, {6, 2, 255}}};
  ASSERT_TRUE(session.on_message({session.tree().end(), 0, grow}, now()).ok());
  const PassPlan plan = session.start(now());
  ASSERT_EQ(plan.nodes.size(), 3u);
  session.end_node(0);
  session.end_node(2);
  EXPECT_EQ(session.finish([](std::size_t, Position) { return 3; }, {}, now()), -1);
  ASSERT_TRUE(session.runnable_at().has_value()) << "its child waits";
  const PassPlan next = session.start(now());
  EXPECT_THAT(next.tokens, testing::ElementsAre(3));
  ASSERT_EQ(next.nodes.size(), 1u);
  EXPECT_EQ(next.nodes[0].token, 6);
}

TEST_F(BranchPrunerTest, APredictorPrunesWhereNoExitReports) {
  options_.predictor = &exits_;
  options_.prune_below = 0.4;
  const Open asked = open_message({1, 2, 3}, 60);
  EXPECT_EQ(decode(asked), expected(asked));
  EXPECT_GT(scheduler().stats().pruned.rows_ended, 0u);
  EXPECT_EQ(scheduler().stats().exits_computed, 0u);
}

}  // namespace
}  // namespace outrider
