// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/exit_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ExitGuess guess(std::int32_t exit, NodeId leaf, TokenId token, double confidence) {
  return {.exit = exit, .leaf_id = leaf, .next_token = token, .confidence = confidence};
}

class ExitReportWindowTest : public testing::Test {
 protected:
  // The exits of the reports that may go now.
  std::vector<std::int32_t> sent(ExitReportWindow& window) {
    std::vector<std::int32_t> exits;
    while (const auto report = window.next()) exits.push_back(report->exit);
    return exits;
  }
  // Fills the window with guesses that are surer than any of the test's.
  void fill_window(ExitReportWindow& window) {
    for (TokenId token = 1000; window.in_flight() < ExitReportWindow::kMaxInFlight; ++token) {
      window.offer(guess(9, 0, token, 1.0));
      ASSERT_TRUE(window.next().has_value());
    }
  }
};

TEST_F(ExitReportWindowTest, ReportsCarryTheGuessAndRisingNumbers) {
  ExitReportWindow window(ReportQueue::kPriority);
  window.begin_pass(7);
  window.offer(guess(2, 5, 40, 0.5));
  const auto report = window.next();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->pass, 7u);
  EXPECT_EQ(report->exit, 2);
  EXPECT_EQ(report->leaf_id, 5u);
  EXPECT_EQ(report->next_token, 40);
  EXPECT_EQ(report->confidence, 128);
  EXPECT_EQ(report->seq, 1u);
  window.begin_pass(8);
  window.offer(guess(0, 0, 1, 2.0));
  EXPECT_EQ(window.next()->seq, 2u);
}

TEST_F(ExitReportWindowTest, WhatWasSaidInThePassIsNotSaidTwice) {
  ExitReportWindow window(ReportQueue::kPriority);
  window.begin_pass(1);
  window.offer(guess(0, 5, 40, 0.2));
  EXPECT_THAT(sent(window), ElementsAre(0));
  window.offer(guess(1, 5, 40, 0.9));  // surer, but no news
  EXPECT_THAT(sent(window), IsEmpty());
  window.offer(guess(2, 5, 41, 0.1));
  EXPECT_THAT(sent(window), ElementsAre(2));
  window.begin_pass(2);
  window.offer(guess(0, 5, 40, 0.2));
  EXPECT_THAT(sent(window), ElementsAre(0));
  EXPECT_EQ(window.counts().deduplicated, 1u);
  EXPECT_EQ(window.counts().computed, 4u);
}

TEST_F(ExitReportWindowTest, ThePriorityQueueSendsTheSurestFirstAndTheOtherTheOldest) {
  for (const auto& [queue, order] :
       {std::pair(ReportQueue::kPriority, std::vector<std::int32_t>{1, 2, 0}),
        std::pair(ReportQueue::kFifo, std::vector<std::int32_t>{0, 1, 2})}) {
    ExitReportWindow window(queue);
    window.begin_pass(1);
    fill_window(window);
    window.offer(guess(0, 0, 1, 0.1));
    window.offer(guess(1, 0, 2, 0.8));
    window.offer(guess(2, 0, 3, 0.5));
    EXPECT_THAT(sent(window), IsEmpty());
    ASSERT_TRUE(window.acknowledge(8).ok());
    EXPECT_THAT(sent(window), testing::ElementsAreArray(order));
  }
}

TEST_F(ExitReportWindowTest, ASecondOpinionLendsAWaitingGuessItsWeight) {
  ExitReportWindow window(ReportQueue::kPriority);
  window.begin_pass(1);
  fill_window(window);
  window.offer(guess(0, 0, 1, 0.1));
  window.offer(guess(1, 0, 2, 0.4));
  window.offer(guess(2, 0, 1, 0.7));
  ASSERT_TRUE(window.acknowledge(8).ok());
  EXPECT_THAT(sent(window), ElementsAre(2, 1));
}

TEST_F(ExitReportWindowTest, TheVerdictDropsWhatWaits) {
  ExitReportWindow window(ReportQueue::kPriority);
  window.begin_pass(1);
  fill_window(window);
  window.offer(guess(0, 0, 1, 0.1));
  window.end_pass(1, {});
  ASSERT_TRUE(window.acknowledge(8).ok());
  EXPECT_THAT(sent(window), IsEmpty());
  window.offer(guess(0, 0, 1, 0.1));  // late
  EXPECT_THAT(sent(window), IsEmpty());
  EXPECT_EQ(window.counts().dropped, 1u);
}

TEST_F(ExitReportWindowTest, AnAcknowledgementOfTheUnsentIsRefused) {
  ExitReportWindow window(ReportQueue::kPriority);
  EXPECT_TRUE(window.acknowledge(0).ok());
  const Status status = window.acknowledge(3);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("acked_reports: 3"));
}

TEST_F(ExitReportWindowTest, AnEdgeThatNeverAcknowledgesGetsEightReports) {
  ExitReportWindow window(ReportQueue::kFifo);
  std::size_t total = 0;
  for (std::uint32_t pass = 0; pass < 100; ++pass) {
    window.begin_pass(pass);
    window.offer(guess(0, 0, 1, 0.5));
    total += sent(window).size();
  }
  EXPECT_EQ(total, 8u);
}

TEST_F(ExitReportWindowTest, AnAcknowledgedVerdictSettlesReportsThatWereDroppedForIt) {
  ExitReportWindow window(ReportQueue::kFifo);
  window.begin_pass(1);
  fill_window(window);
  window.end_pass(5, {});  // the verdict overtakes them all: the edge will never see them
  window.begin_pass(2);
  window.offer(guess(3, 0, 1, 0.5));
  window.settle(4);
  EXPECT_THAT(sent(window), IsEmpty());
  window.settle(5);
  EXPECT_EQ(window.in_flight(), 0u);
  EXPECT_THAT(sent(window), ElementsAre(3));
  EXPECT_TRUE(window.acknowledge(8).ok());  // one had come through
  EXPECT_EQ(window.in_flight(), 1u);
  EXPECT_TRUE(window.acknowledge(9).ok());
  EXPECT_EQ(window.in_flight(), 0u);
}

// An exit that states 0.9 and is wrong is worth less than one that states 0.5 and is right. What is
// sent is what they state.
TEST_F(ExitReportWindowTest, ByGainThoseGoFirstThatVerdictsProvedRight) {
  for (const auto& [queue, first] :
       {std::pair(ReportQueue::kGain, 1), std::pair(ReportQueue::kPriority, 0)}) {
    ExitReportWindow window(queue);
    const auto offer_both = [&] {
      window.offer({.exit = 0, .layer = 2, .next_token = 1, .confidence = 0.9, .outcome = {1}});
      window.offer({.exit = 1, .layer = 4, .next_token = 2, .confidence = 0.5, .outcome = {2}});
    };
    for (std::uint32_t pass = 0; pass < 20; ++pass) {
      window.begin_pass(pass);
      offer_both();
      const auto report = window.next();
      ASSERT_TRUE(report.has_value());
      EXPECT_TRUE(pass > 0 || report->exit == 0) << "nothing is known yet";
      EXPECT_EQ(report->confidence, report->exit == 0 ? 230 : 128);
      ASSERT_TRUE(window.acknowledge(report->seq).ok());
      window.end_pass(pass + 1, std::vector<TokenId>{2});
    }
    window.begin_pass(20);
    offer_both();
    EXPECT_EQ(window.next()->exit, first);
  }
}

// A pass that fails has no verdict, and one of no tokens is none.
TEST_F(ExitReportWindowTest, WithoutAVerdictNobodyIsJudged) {
  ExitReportWindow window(ReportQueue::kGain);
  const auto offer_both = [&] {
    window.offer({.exit = 0, .layer = 2, .next_token = 1, .confidence = 0.9, .outcome = {1}});
    window.offer({.exit = 1, .layer = 4, .next_token = 2, .confidence = 0.8, .outcome = {2}});
  };
  for (std::uint32_t pass = 0; pass < 20; ++pass) {
    window.begin_pass(pass);
    offer_both();
    if (pass % 2 == 0) window.end_pass(0, {});
  }
  window.begin_pass(20);
  offer_both();
  EXPECT_EQ(window.next()->exit, 0);
}

// Random passes against a plain restatement of the rules.
TEST_F(ExitReportWindowTest, UnderRandomUseNothingIsRepeatedLateOrBeyondTheWindow) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    ExitReportWindow window(seed % 2 == 0 ? ReportQueue::kPriority : ReportQueue::kFifo);
    std::map<std::pair<NodeId, TokenId>, bool> said;  // of the pass; whether sent
    std::uint32_t pass = 0, last = 0, acked = 0;
    std::vector<std::uint32_t> last_of_pass;  // the text is as long as there were passes
    window.begin_pass(pass);
    for (int step = 0; step < 400; ++step) {
      switch (random() % 9) {
        case 0:
          last_of_pass.push_back(last);
          window.end_pass(static_cast<Position>(last_of_pass.size()), {});
          window.begin_pass(++pass);
          said.clear();
          break;
        case 8: {
          const std::size_t position = random() % (last_of_pass.size() + 1);
          if (position > 0) acked = std::max(acked, last_of_pass[position - 1]);
          window.settle(static_cast<Position>(position));
          break;
        }
        case 1:
          acked += static_cast<std::uint32_t>(random() % (last - acked + 1));
          ASSERT_TRUE(window.acknowledge(acked).ok());
          break;
        case 2:
        case 3: {
          const auto report = window.next();
          if (!report) {
            const bool waits =
                std::ranges::any_of(said, [](const auto& one) { return !one.second; });
            ASSERT_TRUE(!waits || last - acked == 8) << "seed " << seed;
            break;
          }
          ASSERT_EQ(report->pass, pass) << "seed " << seed;
          ASSERT_EQ(report->seq, ++last) << "seed " << seed;
          bool& sent_before = said.at({report->leaf_id, report->next_token});
          ASSERT_FALSE(sent_before) << "seed " << seed;
          sent_before = true;
          ASSERT_LE(window.in_flight(), 8u) << "seed " << seed;
          break;
        }
        default: {
          const ExitGuess one =
              guess(static_cast<std::int32_t>(random() % 4), static_cast<NodeId>(random() % 3),
                    static_cast<TokenId>(random() % 4), static_cast<double>(random() % 100) / 99);
          said.try_emplace({one.leaf_id, one.next_token}, false);
          window.offer(one);
        }
      }
      ASSERT_EQ(window.in_flight(), last - acked) << "seed " << seed;
    }
  }
}

EdgeMessage acknowledging(std::uint32_t seq) {
  return {.acked_reports = seq, .body = AckOnly{}};
}

TEST(ExitReportChannelTest, ASinkMayAcknowledgeWhatItIsHanded) {
  std::vector<std::uint32_t> seen;
  std::optional<ExitReportChannel> channel;
  channel.emplace(ReportQueue::kFifo, [&](const ExitReport& report) {
    seen.push_back(report.seq);
    channel->acknowledge(acknowledging(report.seq));
  });
  channel->begin_pass(1);
  for (TokenId token = 0; token < 50; ++token) channel->offer(guess(0, 0, token, 0.5));
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_TRUE(channel->status().ok());
  EXPECT_EQ(channel->counts().sent, 50u);
}

TEST(ExitReportChannelTest, WhatFindsNoRoomGoesWithTheNextGuessOnceThereIsSome) {
  std::uint32_t sent = 0;
  ExitReportChannel channel(ReportQueue::kFifo,
                            [&](const ExitReport& report) { sent = report.seq; });
  channel.begin_pass(1);
  for (TokenId token = 0; token < 12; ++token) channel.offer(guess(0, 0, token, 0.5));
  EXPECT_EQ(sent, 8u);
  channel.acknowledge(acknowledging(2));
  EXPECT_EQ(sent, 8u) << "acknowledging sends nothing by itself";
  channel.offer(guess(1, 0, 0, 0.5));  // no news, but its turn
  EXPECT_EQ(sent, 10u);
  channel.end_pass(1, {});
  channel.acknowledge(acknowledging(10));
  channel.offer(guess(1, 0, 1, 0.5));
  EXPECT_EQ(sent, 10u) << "the verdict is out";
}

// The error stays until the scheduler asks for it, whatever is acknowledged meanwhile.
TEST(ExitReportChannelTest, AWrongAcknowledgementIsRemembered) {
  ExitReportChannel channel(ReportQueue::kFifo, [](const ExitReport&) {});
  channel.acknowledge(acknowledging(1));
  channel.acknowledge(acknowledging(0));
  EXPECT_EQ(channel.status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace outrider
