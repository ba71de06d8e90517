// Drafting and sending before the verdict. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge_client/session/decoding_session.h"
#include "tests/unit/edge_client/session/session_harness.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

using Ids = std::vector<TokenId>;

class Ahead {
 public:
  explicit Ahead(Strategy strategy, Optimize optimize = Optimize::kCost, PairProfiles known = {})
      : edge(strategy) {
    edge.options.speculation.first.optimize = optimize;
    edge.options.speculation.profiles = std::move(known);
    edge.start();
    Opened opened = SessionHarness::target();
    opened.exits = {2, 4, 6};
    edge.opened(opened);
  }

  void starts() {
    const NodeId last_id = edge.tree().ids().last_id();
    edge.from_verifier(Started{.pass = edge.next_pass, .position = edge.end(), .last_id = last_id});
  }
  void verdict(const Ids& tokens, std::uint32_t rows = 4) {
    edge.from_verifier(
        Verdict{.pass = edge.next_pass++, .position = edge.end(), .tokens = tokens, .rows = rows});
  }
  void report(NodeId leaf, TokenId token, std::uint8_t confidence = 200) {
    edge.from_verifier(ExitReport{.pass = edge.next_pass,
                                  .exit = 1,
                                  .leaf_id = leaf,
                                  .next_token = token,
                                  .confidence = confidence,
                                  .seq = ++seq});
  }
  // A token that the draft would not write next.
  TokenId other(std::size_t after) const { return (edge.draft_says(after + 1)[after] + 1) % 12; }
  // A next token that is not even among the guesses.
  TokenId surprise(TokenId from = 0) const {
    while (edge.tree().child(kRoot, from) != kNoNode) ++from;
    return from;
  }
  Ids walk(std::size_t drafted, TokenId next) const {
    Ids tokens = edge.draft_says(drafted);
    tokens.push_back(next);
    return tokens;
  }
  const PredraftStats& stats() const { return edge.session->stats().predraft; }

  SessionHarness edge;
  std::uint32_t seq = 0;
};

TEST(Fsd, WhatAnExitNamedLeavesWithTheVerdictAndWithoutAStep) {
  Ahead fsd(Strategy::kFsd);
  EXPECT_TRUE(fsd.edge.sent<Open>().at(0).policy.wants_exits);
  fsd.starts();
  EXPECT_FALSE(fsd.edge.held_step()) << "nothing is named yet";
  const TokenId token = fsd.other(1);
  fsd.report(1, token);
  const std::uint64_t steps = fsd.edge.session->stats().draft_steps;
  const std::size_t grows = fsd.edge.sent<Grow>().size();
  EXPECT_GT(steps, 0u);
  fsd.verdict(fsd.walk(1, token));
  EXPECT_EQ(fsd.edge.session->stats().draft_steps, steps);
  ASSERT_THAT(fsd.edge.sent<Grow>(), SizeIs(grows + 1));
  EXPECT_EQ(SessionHarness::tokens_of(fsd.edge.sent<Grow>().back()), fsd.edge.draft_says(3));
  EXPECT_EQ(fsd.stats().hits, 1u);
  EXPECT_THAT(fsd.stats().hits_by_exit, testing::ElementsAre(0, 1));
  EXPECT_EQ(fsd.edge.messages.back().acked_reports, 1u);
}

TEST(Fsd, AMissIsDraftedAsPlainSpeculationDoes) {
  Ahead fsd(Strategy::kFsd);
  fsd.starts();
  fsd.report(1, fsd.other(1));
  fsd.verdict({fsd.other(0)});
  EXPECT_EQ(SessionHarness::tokens_of(fsd.edge.sent<Grow>().back()), fsd.edge.draft_says(3));
  EXPECT_EQ(fsd.stats().misses, 1u);
}

// A step for what an exit named is out; returns the token named.
TokenId hold_step_of_report(Ahead& fsd) {
  fsd.edge.hold_draft_steps = true;
  fsd.starts();
  const TokenId token = fsd.other(0);
  fsd.report(0, token);
  EXPECT_TRUE(fsd.edge.held_step());
  return token;
}

TEST(Fsd, ARoundThatIsNotDoneIsAPartialHitAndIsFinished) {
  Ahead fsd(Strategy::kFsd);
  const TokenId token = hold_step_of_report(fsd);
  fsd.edge.run_held_step();  // one of three
  fsd.verdict({token});
  EXPECT_EQ(fsd.stats().partial_hits, 1u);
  fsd.edge.run_held_step();
  fsd.edge.run_held_step();
  EXPECT_EQ(SessionHarness::tokens_of(fsd.edge.sent<Grow>().back()), fsd.edge.draft_says(3));
}

TEST(Fsd, AHitAtWorkIsLate) {
  Ahead fsd(Strategy::kFsd);
  fsd.verdict({hold_step_of_report(fsd)});
  EXPECT_EQ(fsd.stats().late_hits, 1u);
}

TEST(Fsd, AStepThatAVerdictMakesVainIsAbandoned) {
  Ahead fsd(Strategy::kFsd);
  const TokenId token = hold_step_of_report(fsd);
  EXPECT_FALSE(fsd.edge.abandoned());
  fsd.verdict({fsd.surprise(token + 1)});
  EXPECT_TRUE(fsd.edge.abandoned());
  const std::uint64_t steps = fsd.edge.session->stats().draft_steps;
  fsd.edge.run_held_step();
  EXPECT_EQ(fsd.stats().abandoned_steps, 1u);
  EXPECT_EQ(fsd.edge.session->stats().draft_steps, steps);
  while (fsd.edge.held_step()) fsd.edge.run_held_step();
  EXPECT_EQ(SessionHarness::tokens_of(fsd.edge.sent<Grow>().back()), fsd.edge.draft_says(3));
}

TEST(Fsd, WithoutExitsIsPlainSpeculationAndSaysSo) {
  SessionHarness edge(Strategy::kFsd);
  edge.start();
  edge.opened();
  EXPECT_TRUE(edge.said("as --strategy sd, because the target has no early exits"));
  edge.from_verifier(Started{.pass = 0, .position = 3, .last_id = 3});
  edge.from_verifier(ExitReport{.pass = 0, .exit = 0, .next_token = 1, .seq = 1});
  EXPECT_EQ(edge.session->stats().predraft.ignored_reports, 1u);
}

TEST(Trees, BeyondTheTargetsLimitAreClampedWhichIsSaid) {
  for (const std::uint32_t rows : {9u, 33u}) {
    SessionHarness edge(Strategy::kSd);
    edge.options.speculation.first.tree = {.kind = TreeKind::kLever, .size = 20};
    edge.start();
    Opened target = SessionHarness::target();
    target.limits.max_rows = rows;
    edge.opened(target);
    EXPECT_EQ(edge.said("tree: at most 8 nodes a round instead of 20"), rows == 9);
  }
}

TEST(ExitReports, ThatMakeNoSenseAreCountedAndForgotten) {
  Ahead fsd(Strategy::kFsd);
  fsd.edge.hold_draft_steps = true;
  const std::uint32_t before = fsd.edge.next_pass;
  fsd.report(0, 1);  // before the pass
  fsd.starts();
  const auto drafted = fsd.edge.draft_says(3);
  fsd.report(9, 1);            // no such node
  fsd.report(0xffffffffu, 1);  // nor this
  fsd.report(0, -1);
  fsd.report(0, 13);
  fsd.report(0, drafted[0]);  // the walk would go on
  fsd.edge.from_verifier(
      ExitReport{.pass = before, .exit = 3, .next_token = fsd.other(0), .seq = ++fsd.seq});
  fsd.edge.from_verifier(
      ExitReport{.pass = before, .exit = -1, .next_token = fsd.other(0), .seq = ++fsd.seq});
  fsd.edge.from_verifier(
      ExitReport{.pass = before + 1, .exit = 1, .next_token = fsd.other(0), .seq = ++fsd.seq});
  fsd.edge.from_verifier(ExitReport{
      .pass = before, .exit = 1, .next_token = fsd.other(0), .seq = fsd.seq});  // repeated
  EXPECT_EQ(fsd.stats().ignored_reports, 10u);
  EXPECT_EQ(fsd.stats().reports, 0u);
  EXPECT_FALSE(fsd.edge.held_step());
  EXPECT_FALSE(fsd.edge.finish);
  fsd.report(0, fsd.other(0));
  EXPECT_EQ(fsd.stats().reports, 1u);
}

TEST(Mirror, RoundsForLikelyOutcomesLeaveBeforeTheVerdict) {
  Ahead mirror(Strategy::kMirror);
  mirror.starts();
  const TokenId token = mirror.surprise();
  mirror.report(0, token, 240);
  const Grow ahead = mirror.edge.sent<Grow>().back();
  EXPECT_GT(mirror.stats().ahead_nodes, 3u);
  EXPECT_EQ(ahead.anchor_position, 3);
  const std::size_t messages = mirror.edge.messages.size();
  mirror.verdict({token});
  EXPECT_EQ(mirror.stats().hits, 1u);
  for (std::size_t i = messages; i < mirror.edge.messages.size(); ++i) {
    const auto* grow = std::get_if<Grow>(&mirror.edge.messages[i].body);
    EXPECT_TRUE(grow == nullptr || !grow->nodes.empty()) << "no pass needs to be asked for";
  }
  EXPECT_EQ(mirror.stats().synced, 0u) << "not known before the next pass starts";
  mirror.starts();
  EXPECT_EQ(mirror.stats().synced, 1u);
}

TEST(Mirror, ARoundThatWasOnItsWayWhenThePassBeganCameTooLate) {
  Ahead mirror(Strategy::kMirror);
  mirror.starts();
  const NodeId arrived = mirror.edge.tree().ids().last_id();
  const TokenId token = mirror.surprise();
  mirror.report(0, token, 240);
  mirror.verdict({token});
  EXPECT_EQ(mirror.stats().hits, 1u);
  mirror.edge.from_verifier(
      Started{.pass = mirror.edge.next_pass, .position = mirror.edge.end(), .last_id = arrived});
  EXPECT_EQ(mirror.stats().synced, 0u);
}

TEST(Mirror, AMissIsAnsweredAtOnce) {
  Ahead mirror(Strategy::kMirror);
  mirror.edge.hold_draft_steps = true;
  mirror.starts();
  mirror.verdict({mirror.surprise()});
  while (mirror.edge.held_step() && mirror.edge.messages.back().acked_position < 4) {
    mirror.edge.run_held_step();
  }
  EXPECT_EQ(SessionHarness::tokens_of(mirror.edge.sent<Grow>().back()), mirror.edge.draft_says(3));
}

TEST(Mirror, RoundsForOutcomesThatDidNotComeAreCountedAsDead) {
  Ahead mirror(Strategy::kMirror);
  const std::uint64_t before = mirror.stats().ahead_nodes;  // rows of the pass that starts
  mirror.starts();
  const TokenId token = mirror.surprise();
  mirror.report(0, token, 240);
  const std::uint64_t sent = mirror.stats().ahead_nodes - before;
  ASSERT_GT(sent, 0u);
  mirror.edge.hold_draft_steps = true;
  mirror.verdict({mirror.surprise(token + 1)}, 4);
  EXPECT_EQ(mirror.stats().ahead_dead, sent);
  EXPECT_EQ(mirror.stats().surplus_rows, 0u);
}

TEST(Mirror, RowsNobodyAskedForAreCounted) {
  Ahead mirror(Strategy::kMirror);
  mirror.edge.hold_draft_steps = true;
  mirror.starts();
  mirror.verdict({mirror.surprise()});
  mirror.starts();
  mirror.verdict({1}, 9);
  EXPECT_GT(mirror.stats().surplus_rows, 0u);
}

TEST(Mirror, GoesOnAloneWhereWaitingLosesAndSaysWhyWhenItTurnsOff) {
  Ahead mirror(Strategy::kMirror, Optimize::kLatency);
  EXPECT_EQ(mirror.edge.sent<Open>().at(0).policy.pass_policy, PassPolicy::kEager);
  mirror.edge.hold_draft_steps = true;
  const auto is_off = [&] {
    const auto& changes = mirror.edge.session->stats().plan_changes;
    return !changes.empty() && !changes.back().speculates;
  };
  int pass = 0;
  const auto verdict_after = [&](Duration time) {
    mirror.starts();
    mirror.edge.clock.advance(time);
    mirror.edge.from_verifier(Verdict{.pass = mirror.edge.next_pass++,
                                      .position = mirror.edge.end(),
                                      .tokens = {static_cast<TokenId>(pass++ % 11)},
                                      .rows = 1,
                                      .timings = {.computed = from_ms(20)}});
    if (mirror.edge.held_step()) mirror.edge.run_held_step();
  };
  while (pass < 30 && !is_off()) verdict_after(from_ms(30));
  EXPECT_FALSE(mirror.edge.said("OFF, because")) << "it has not held yet";
  verdict_after(SpeculationNotice::kHolds);
  EXPECT_TRUE(mirror.edge.said("ms with the draft and 20.0 ms without"));
  const std::vector<Policy> policies = mirror.edge.sent<Policy>();
  ASSERT_FALSE(policies.empty());
  EXPECT_EQ(policies.back().pass_policy, PassPolicy::kEager);
  EXPECT_EQ(policies.back().patience, Duration{0});
  EXPECT_FALSE(mirror.edge.session->stats().plan_changes.empty());
  const std::uint64_t counted = mirror.stats().verdicts;
  for (int pass = 0; pass < 3; ++pass) {
    mirror.starts();
    mirror.verdict({1}, 1);
  }
  EXPECT_EQ(mirror.stats().verdicts, counted) << "nobody drafted, so nothing was missed";
}

// Under on_request the verifier waits for a round: without one the answer would stand still.
TEST(Mirror, ForCostItDraftsThoughItDidNotPayLastTime) {
  SessionHarness edge(Strategy::kMirror);
  edge.options.speculation.first.optimize = Optimize::kCost;
  edge.options.speculation.profiles["f"] = {.tried = {20},
                                            .stood = {5},
                                            .speculates = false,
                                            .probe_in = 64,
                                            .probe_after = 64,
                                            .answers = 1,
                                            .passes = {}};
  edge.start();
  edge.opened();
  const std::size_t before = edge.sent<Grow>().size();
  edge.pass({11});
  EXPECT_GT(edge.sent<Grow>().size(), before);
  EXPECT_FALSE(edge.session->speculation().profile().value().speculates)
      << "what is known for latency stays";
}

TEST(Mirror, WantsNoMorePatienceThanTheTargetAllows) {
  SessionHarness edge(Strategy::kMirror);
  edge.options.speculation.first.optimize = Optimize::kLatency;
  edge.start();
  Opened opened = SessionHarness::target();
  opened.limits.max_patience = from_ms(1);
  opened.pass_costs = {.points = {{1, from_ms(1000)}, {8, from_ms(1100)}}};
  edge.opened(opened);
  edge.pass({11});
  ASSERT_FALSE(edge.sent<Policy>().empty());
  EXPECT_EQ(edge.sent<Policy>().back().patience, from_ms(1));
}

// Which may be another server's than that of the stream before: it would refuse more than it
// allows.
TEST(Mirror, AReconnectOpensWithoutPatienceUntilTheTargetHasSaidHowMuchItAllows) {
  SessionHarness edge(Strategy::kMirror);
  edge.options.speculation.first.optimize = Optimize::kLatency;
  edge.start();
  Opened opened = SessionHarness::target();
  opened.pass_costs = {.points = {{1, from_ms(1000)}, {8, from_ms(1100)}}};
  edge.opened(opened);
  edge.pass({11});
  ASSERT_GT(edge.sent<Policy>().back().patience, from_ms(1));
  edge.stream_ends(unavailable("gone"));
  edge.tick_when_due();
  ASSERT_EQ(edge.sent<Open>().size(), 2u);
  EXPECT_EQ(edge.sent<Open>().back().policy.patience, Duration{0});
  const std::size_t policies = edge.sent<Policy>().size();
  opened.limits.max_patience = from_ms(1);
  edge.opened(opened);
  ASSERT_EQ(edge.sent<Policy>().size(), policies + 1);
  EXPECT_EQ(edge.sent<Policy>().back().patience, from_ms(1));
}

TEST(Mirror, WhatAnAnswerLearntIsOfTheTargetItBeganWith) {
  SessionHarness edge(Strategy::kMirror);
  edge.options.accept_other_model = true;
  edge.start();
  edge.opened();
  edge.pass({11});
  edge.handle(Reopen{});
  Opened other = SessionHarness::target();
  other.fingerprint = "g";
  edge.opened(other);
  edge.pass({11});
  EXPECT_EQ(edge.session->opened().fingerprint, "g");
  EXPECT_EQ(edge.session->speculation().profiled_target(), "f");
  EXPECT_TRUE(edge.session->speculation().profile().has_value());
}

// An exit states 0.9 in outcomes that never come. Returns what is believed of the last one.
float believed_at_last(Ahead& edge, int passes) {
  float believed = 0;
  for (int pass = 0; pass < passes; ++pass) {
    edge.starts();
    const TokenId named = edge.surprise();
    edge.report(0, named, 230);
    const MirroredTree& tree = edge.edge.tree();
    believed = tree.node(tree.child(kRoot, named)).confidence;
    edge.verdict({(named + 1) % 12});
  }
  return believed;
}

TEST(Mirror, BelievesExitsAsFarAsTheyWereRightInThisAnswerAndInEarlierOnes) {
  const float stated = 230 / 255.0f;
  Ahead first(Strategy::kMirror);
  EXPECT_NEAR(believed_at_last(first, 1), stated, 0.001);
  EXPECT_LT(believed_at_last(first, 12), 0.3f);
  PairProfile learnt = first.edge.session->speculation().profile().value();
  ASSERT_THAT(learnt.exits, SizeIs(1));
  EXPECT_EQ(learnt.exits[0].layer, 4) << "the second of the target's exits";
  Ahead next(Strategy::kMirror, Optimize::kCost, {{"f", learnt}});
  EXPECT_LT(believed_at_last(next, 1), 0.3f);
  learnt.exits[0].layer = 3;
  Ahead another(Strategy::kMirror, Optimize::kCost, {{"f", learnt}});
  EXPECT_NEAR(believed_at_last(another, 1), stated, 0.001) << "nothing is known of this exit";
}

// FSD's exits state a score; the order that it gives is the paper's.
TEST(Fsd, TakesExitsAtTheirWord) {
  Ahead fsd(Strategy::kFsd);
  EXPECT_NEAR(believed_at_last(fsd, 12), 230 / 255.0f, 0.001);
}

// The pass was lost with its stream, so its verdict judges nobody.
TEST(Mirror, AVerdictOfAnotherStreamSaysNothingOfExits) {
  Ahead mirror(Strategy::kMirror);
  mirror.starts();
  const TokenId named = mirror.surprise();
  mirror.report(0, named, 230);
  mirror.edge.stream_ends(unavailable("gone"));
  mirror.edge.tick_when_due();
  Opened opened = SessionHarness::target();
  opened.exits = {2, 4, 6};
  mirror.edge.opened(opened);
  for (int pass = 0; pass < 2; ++pass) {
    mirror.starts();
    mirror.verdict({(named + 1) % 12});
  }
  const PairProfile learnt = mirror.edge.session->speculation().profile().value();
  ASSERT_THAT(learnt.exits, SizeIs(1));
  EXPECT_EQ(learnt.exits[0].offset, 0);
}

TEST(Mirror, AsksForNoExitsThatForeseeNothing) {
  Ahead mirror(Strategy::kMirror, Optimize::kLatency);
  bool exits = false;  // as the verifier has it
  bool asked = false;
  for (int pass = 0; pass < 20; ++pass) {
    mirror.starts();
    mirror.edge.clock.advance(from_ms(10));
    mirror.edge.from_verifier(Verdict{.pass = mirror.edge.next_pass++,
                                      .position = mirror.edge.end(),
                                      .tokens = {static_cast<TokenId>(pass % 11)},
                                      .rows = 1,
                                      .timings = {.computed = from_ms(exits ? 25 : 20)}});
    const std::vector<Policy> policies = mirror.edge.sent<Policy>();
    if (!policies.empty()) exits = policies.back().wants_exits;
    asked |= exits;
  }
  EXPECT_TRUE(asked);
  EXPECT_FALSE(exits);
  std::string reasons;
  for (const auto& change : mirror.edge.session->stats().plan_changes) {
    reasons += change.reason + "\n";
  }
  EXPECT_THAT(reasons, HasSubstr("the exits cost 5.0 ms a pass and could win"));
}

}  // namespace
}  // namespace outrider
