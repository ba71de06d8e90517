// Early exits through the scheduler: what a stream hears of them, and when.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/exit_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/decoding/verify/scheduling/scheduler.h"
#include "tests/sim/toy_exits.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ExitProbeTest : public testing::Test {
 protected:
  void begin(bool wants_exits) {
    options_.exits = &exits_;
    scheduler_.emplace(model_, options_);
    connect();
    open_.prefix = {1, 2};
    open_.end_position = 60;
    open_.policy.wants_exits = wants_exits;
    post({.body = open_});
  }
  void connect() {
    reports_ = std::make_shared<ExitReportChannel>(
        options_.report_queue, [this](const ExitReport& report) { reported_.push_back(report); });
    scheduler_->connect(1, "session", clock_.now(), {.reports = reports_});
  }
  void post(const EdgeMessage& message) {
    reports_->acknowledge(message);
    scheduler_->receive(1, message, clock_.now());
  }

  // One pass with its reports.
  std::vector<ExitReport> turn() {
    reported_.clear();
    if (!scheduler_->start(clock_.now())) return {};
    scheduler_->compute();
    scheduler_->finish(clock_.now());
    return reported_;
  }
  std::vector<ServerMessage> heard() {
    std::vector<ServerMessage> messages;
    for (StreamEvent& event : scheduler_->take_events()) {
      if (auto* message = std::get_if<ServerMessage>(&event.event)) messages.push_back(*message);
      if (auto* end = std::get_if<StreamEnded>(&event.event)) ended_ = end->status;
    }
    return messages;
  }
  Position end() const { return scheduler_->session(1)->tree().end(); }
  std::vector<TokenId> text() const {
    const auto text = scheduler_->session(1)->tree().text();
    return {text.begin(), text.end()};
  }

  ManualClock clock_;
  ToyModel model_{12};
  ToyExits exits_{model_};
  SchedulerOptions options_;
  std::optional<Scheduler> scheduler_;
  std::shared_ptr<ExitReportChannel> reports_;
  std::vector<ExitReport> reported_;  // in the pass at hand
  Open open_;
  std::optional<Status> ended_;
};

TEST_F(ExitProbeTest, OpenedNamesTheLayers) {
  begin(true);
  const auto messages = heard();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_THAT(std::get<Opened>(messages[0]).exits, ElementsAre(1, 2, 3));
}

TEST_F(ExitProbeTest, EachOutcomeIsReportedOnceByTheFirstExitThatNamesIt) {
  begin(true);
  std::size_t reported = 0;
  for (int pass = 0; pass < 20; ++pass) {
    std::vector<std::pair<NodeId, TokenId>> outcomes;
    std::vector<std::int32_t> first_exits;
    for (std::int32_t exit = 0; exit < 3; ++exit) {
      const std::vector<float> logits = exits_.logits_after(static_cast<std::size_t>(exit), text());
      const std::pair outcome{NodeId{0}, choose(logits, open_.sampling, open_.seed, end())};
      if (std::find(outcomes.begin(), outcomes.end(), outcome) != outcomes.end()) continue;
      outcomes.push_back(outcome);
      first_exits.push_back(exit);
    }
    const std::vector<ExitReport> reports = turn();
    ASSERT_THAT(reports, SizeIs(outcomes.size()));
    for (std::size_t i = 0; i < reports.size(); ++i) {
      EXPECT_EQ(std::pair(reports[i].leaf_id, reports[i].next_token), outcomes[i]);
      EXPECT_EQ(reports[i].exit, first_exits[i]);
      EXPECT_EQ(reports[i].pass, static_cast<std::uint32_t>(pass));
    }
    reported += reports.size();
    post({end(), static_cast<std::uint32_t>(reported), Grow{1, end(), {}}});
  }
  EXPECT_EQ(scheduler_->stats().exits_computed, 60u);
  EXPECT_EQ(scheduler_->stats().reports_sent, reported);
  EXPECT_EQ(scheduler_->stats().reports_deduplicated, 60u - reported);
  EXPECT_EQ(scheduler_->stats().reports_dropped, 0u);
}

TEST_F(ExitProbeTest, AnExitWalksTheNodesOfThePass) {
  begin(true);
  turn();
  // A chain of what the last exit (right except for few texts) chooses.
  std::vector<TokenId> guessed = text();
  std::vector<GrowNode> nodes;
  for (int i = 0; i < 4; ++i) {
    guessed.push_back(choose(exits_.logits_after(2, guessed), open_.sampling, open_.seed,
                             static_cast<Position>(guessed.size())));
    nodes.push_back({guessed.back(), i == 0 ? 0u : 1u, 255});
  }
  const TokenId next = choose(exits_.logits_after(2, guessed), open_.sampling, open_.seed,
                              static_cast<Position>(guessed.size()));
  post({end(), 0, Grow{1, end(), nodes}});
  const std::vector<ExitReport> reports = turn();
  const auto last = std::find_if(reports.begin(), reports.end(), [&](const ExitReport& report) {
    return report.leaf_id == 4 && report.next_token == next;
  });
  EXPECT_NE(last, reports.end());
}

TEST_F(ExitProbeTest, PolicySwitchesExitsMidAnswer) {
  begin(false);
  EXPECT_THAT(turn(), IsEmpty());
  Policy policy;
  for (const bool wanted : {true, false, true}) {
    policy.wants_exits = wanted;
    post({end(), 0, policy});
    post({end(), 0, Grow{1, end(), {}}});
    EXPECT_EQ(turn().empty(), !wanted);
  }
}

TEST_F(ExitProbeTest, ExitsChangeNoText) {
  begin(true);
  while (!ended_) {
    turn();
    if (scheduler_->session(1) != nullptr) post({end(), 0, Grow{1, end(), {}}});
    for (const ServerMessage& message : heard()) {
      if (const auto* verdict = std::get_if<Verdict>(&message)) {
        open_.prefix.insert(open_.prefix.end(), verdict->tokens.begin(), verdict->tokens.end());
      }
    }
  }
  EXPECT_EQ(open_.prefix, model_.decode(std::vector<TokenId>{1, 2}, 60, open_.sampling, 0));
}

TEST_F(ExitProbeTest, AcknowledgingAReportThatWasNeverSentEndsTheStream) {
  begin(false);
  post({2, 1, AckOnly{}});
  heard();
  ASSERT_TRUE(ended_.has_value());
  EXPECT_EQ(ended_->code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ended_->message(), HasSubstr("acked_reports: 1"));
}

TEST_F(ExitProbeTest, WithoutExitsNothingIsReportedOrAcknowledged) {
  scheduler_.emplace(model_, options_);
  connect();
  open_.prefix = {1, 2};
  open_.end_position = 60;
  open_.policy.wants_exits = true;
  post({.body = open_});
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(std::get<Opened>(heard()[0]).exits, IsEmpty());
  post({2, 1, AckOnly{}});
  heard();
  EXPECT_EQ(ended_->code(), StatusCode::kFailedPrecondition);
}

TEST_F(ExitProbeTest, AStreamWithoutAChannelGetsNoReportsAndMayAcknowledgeNone) {
  options_.exits = &exits_;
  scheduler_.emplace(model_, options_);
  scheduler_->connect(1, "session", clock_.now());
  open_.prefix = {1, 2};
  open_.end_position = 60;
  open_.policy.wants_exits = true;
  scheduler_->receive(1, {.body = open_}, clock_.now());
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_EQ(end(), 3);
  scheduler_->receive(1, {2, 1, AckOnly{}}, clock_.now());
  heard();
  ASSERT_TRUE(ended_.has_value());
  EXPECT_EQ(ended_->code(), StatusCode::kFailedPrecondition);
}

class FindingsTest : public ExitProbeTest {
 protected:
  // The evidence of each exit's rows in a pass over these nodes behind the text 1, 2.
  std::vector<std::vector<RowEvidence>> find(const std::vector<GrowNode>& nodes,
                                             ExitScore score = ExitScore::kCalibrated) {
    ExitProbe probe(exits_, score);
    const Target target{.model = model_.info(),
                        .tokenizer_hash = "",
                        .limits = {.max_positions = 60, .vocab_size = 12}};
    open_.prefix = {1, 2};
    open_.end_position = 60;
    VerifySession session(open_, target, {.session_id = "", .prefill_chunk = 8}, clock_.now());
    EXPECT_TRUE(session.on_message({.body = Grow{1, 2, nodes}}, clock_.now()).ok());
    const auto cache = *model_.new_cache(16);
    Rider rider{.plan = session.start(clock_.now()), .cache = cache.get()};
    EXPECT_THAT(rider.plan.nodes, SizeIs(nodes.size()));
    std::vector<std::vector<RowEvidence>> found(3);
    probe.observe([&](const ExitProbe::Finding& finding) {
      found[finding.exit].assign(finding.rows.begin(), finding.rows.end());
    });
    confidences_.resize(3);
    PassRunner runner(model_);
    runner.place({&rider, 1});
    probe.begin(12);
    probe.watch(session, rider.plan, rider.first_logits, [&](const ExitGuess& guess) {
      confidences_[static_cast<std::size_t>(guess.exit)] = guess.confidence;
      EXPECT_EQ(guess.layer, exits_.layers()[static_cast<std::size_t>(guess.exit)]);
      EXPECT_EQ(guess.outcome.back(), guess.next_token);
    });
    LateTap late(probe);
    LayerTap& tap = first_part_is_late_ ? static_cast<LayerTap&>(late) : probe;
    runner.compute({&rider, 1}, {.tap = &tap});
    EXPECT_TRUE(rider.status.ok());
    return found;
  }
  // A pass in two parts, of which the first one's hidden states after layer 1 came too late.
  struct LateTap final : LayerTap {
    explicit LateTap(ExitProbe& probe) : probe(probe) {}
    bool wants(std::int32_t layer) const override { return probe.wants(layer); }
    void on_layer(const HiddenRows& rows) override {
      HiddenRows seen = rows;
      if (rows.layer == 1) {
        seen.first += 1;
        seen.count -= 1;
        seen.values += rows.width;
      }
      probe.on_layer(seen);
    }
    ExitProbe& probe;
  };

  // The candidates of the last exit behind the text 1, 2, by rank.
  std::vector<Candidate> ranked() {
    return rank(exits_.logits_after(2, std::vector<TokenId>{1, 2}), {}, 0, 2, 8);
  }

  bool first_part_is_late_ = false;
  std::vector<double> confidences_;  // [exit]: of the guesses of the last find()
};

TEST_F(FindingsTest, AnExitWithoutItsFirstRowsSaysNothing) {
  first_part_is_late_ = true;
  const auto found = find({{3, 0, 255}, {4, 1, 255}});
  EXPECT_THAT(found[0], IsEmpty());
  EXPECT_THAT(found[1], Not(IsEmpty()));
  EXPECT_THAT(found[2], Not(IsEmpty()));
}

// FSD, algorithm 2: max(q_{1:delta+1}), over all rows of the walk and not the last alone.
TEST_F(FindingsTest, ThePapersScoreIsTheGreatestProbabilityOfTheWalk) {
  bool first_row_is_sharper = false;
  for (TokenId second = 0; second < 12; ++second) {
    const auto found =
        find({{ranked()[0].token, 0, 255}, {second, 1, 255}}, ExitScore::kMaxSoftmax);
    for (std::size_t exit = 0; exit < 3; ++exit) {
      float least = kMaxMargin;
      for (const RowEvidence& row : found[exit]) least = std::min(least, row.spread);
      EXPECT_NEAR(confidences_[exit], std::exp(-least), 1e-6);
      first_row_is_sharper |= least < found[exit].back().spread;
    }
  }
  EXPECT_TRUE(first_row_is_sharper) << "or the last row alone would do";
}

// The margin of a choice, and what the nodes say to it.
TEST_F(FindingsTest, TellMarginsKindsAndOdds) {
  const TokenId first = ranked()[0].token;
  const auto found = find({{first, 0, 191}, {11, 1, 255}});
  ASSERT_GE(found[2].size(), 2u);
  EXPECT_EQ(found[2][0].kind, RowKind::kDrafted);
  const TokenId second =
      choose(exits_.logits_after(2, std::vector<TokenId>{1, 2, first}), {}, 0, 3);
  EXPECT_EQ(found[2][1].kind, second == 11 ? RowKind::kDrafted : RowKind::kCorrected);
  EXPECT_FLOAT_EQ(found[2][0].margin, ranked()[0].score - ranked()[1].score);
  EXPECT_FLOAT_EQ(found[2][0].odds, log_odds(191 / 255.0f));
  EXPECT_FLOAT_EQ(found[2][1].odds, log_odds(1));
}

// Second best to the exit: it depends on the edge's word whether the drafted token is chosen.
TEST_F(FindingsTest, APriorDecidesByTheOddsOfTheNode) {
  const float gap = ranked()[0].score - ranked()[1].score;
  ASSERT_GT(gap, 0);
  exits_.draft_prior.odds_slope = double{gap} / 2;  // even at odds of 2
  const TokenId drafted = ranked()[1].token;
  const RowEvidence sure = find({{drafted, 0, 255}})[2].front();
  EXPECT_EQ(sure.kind, RowKind::kDrafted);
  EXPECT_NEAR(sure.margin, gap / 2 * log_odds(1) - gap, 1e-4);
  const RowEvidence unsure = find({{drafted, 0, 128}})[2].front();
  EXPECT_EQ(unsure.kind, RowKind::kCorrected);
  const RowEvidence doubted = find({{ranked()[0].token, 0, 0}})[2].front();
  EXPECT_EQ(doubted.kind, RowKind::kCorrected) << "the best, but the edge does not believe in it";
}

// The better one of two drafted tokens is the one that is worth more with its own odds.
TEST_F(FindingsTest, EachNodeHasAPriorOfItsOwn) {
  exits_.draft_prior.odds_slope = 5;
  const auto found = find({{ranked()[0].token, 0, 3}, {ranked()[1].token, 0, 252}});
  EXPECT_EQ(found[2].front().kind, RowKind::kDrafted);
  EXPECT_NEAR(found[2].front().margin,
              ranked()[1].score + 5 * log_odds(252 / 255.0f) - ranked()[2].score, 1e-3);
}

}  // namespace
}  // namespace outrider
