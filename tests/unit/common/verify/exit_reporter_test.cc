// SPDX-License-Identifier: Apache-2.0
#include "common/verify/reports/exit_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <vector>

#include "common/verify/reports/exit_report_channel.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ExitGuess guess(std::int32_t exit, NodeId leaf, TokenId token, double confidence) {
  return {.exit = exit, .leaf_id = leaf, .next_token = token, .confidence = confidence};
}

class ExitReporterTest : public testing::Test {
 protected:
  // The exits of the reports that may go now.
  std::vector<std::int32_t> sent(ExitReporter& reporter) {
    std::vector<std::int32_t> exits;
    while (const auto report = reporter.next(clock_.now())) exits.push_back(report->exit);
    return exits;
  }
  // Fills the window with guesses that are surer than any of the test's.
  void fill_window(ExitReporter& reporter) {
    for (TokenId token = 1000; reporter.bytes_in_flight() < reporter.window_bytes(); ++token) {
      reporter.offer(guess(9, 0, token, 1.0));
      ASSERT_TRUE(reporter.next(clock_.now()).has_value());
    }
  }

  ManualClock clock_;
};

TEST_F(ExitReporterTest, ReportsCarryTheGuessAndRisingNumbers) {
  ExitReporter reporter(ReportQueue::kPriority);
  reporter.begin_pass(7);
  reporter.offer(guess(2, 5, 40, 0.5));
  const auto report = reporter.next(clock_.now());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->pass, 7u);
  EXPECT_EQ(report->exit, 2);
  EXPECT_EQ(report->leaf_id, 5u);
  EXPECT_EQ(report->next_token, 40);
  EXPECT_EQ(report->confidence, 128);
  EXPECT_EQ(report->seq, 1u);
  reporter.begin_pass(8);
  reporter.offer(guess(0, 0, 1, 2.0));
  EXPECT_EQ(reporter.next(clock_.now())->seq, 2u);
}

TEST_F(ExitReporterTest, WhatWasSaidInThePassIsNotSaidTwice) {
  ExitReporter reporter(ReportQueue::kPriority);
  reporter.begin_pass(1);
  reporter.offer(guess(0, 5, 40, 0.2));
  EXPECT_THAT(sent(reporter), ElementsAre(0));
  reporter.offer(guess(1, 5, 40, 0.9));  // surer, but no news
  EXPECT_THAT(sent(reporter), IsEmpty());
  reporter.offer(guess(2, 5, 41, 0.1));
  EXPECT_THAT(sent(reporter), ElementsAre(2));
  reporter.begin_pass(2);
  reporter.offer(guess(0, 5, 40, 0.2));
  EXPECT_THAT(sent(reporter), ElementsAre(0));
  EXPECT_EQ(reporter.counts().deduplicated, 1u);
  EXPECT_EQ(reporter.counts().computed, 4u);
}

TEST_F(ExitReporterTest, ThePriorityQueueSendsTheSurestFirstAndTheOtherTheOldest) {
  for (const auto& [queue, order] :
       {std::pair(ReportQueue::kPriority, std::vector<std::int32_t>{1, 2, 0}),
        std::pair(ReportQueue::kFifo, std::vector<std::int32_t>{0, 1, 2})}) {
    ExitReporter reporter(queue);
    reporter.begin_pass(1);
    fill_window(reporter);
    reporter.offer(guess(0, 0, 1, 0.1));
    reporter.offer(guess(1, 0, 2, 0.8));
    reporter.offer(guess(2, 0, 3, 0.5));
    EXPECT_THAT(sent(reporter), IsEmpty());
    ASSERT_TRUE(reporter.acknowledge(10, clock_.now()).ok());
    EXPECT_THAT(sent(reporter), testing::ElementsAreArray(order));
  }
}

TEST_F(ExitReporterTest, ASecondOpinionLendsAWaitingGuessItsWeight) {
  ExitReporter reporter(ReportQueue::kPriority);
  reporter.begin_pass(1);
  fill_window(reporter);
  reporter.offer(guess(0, 0, 1, 0.1));
  reporter.offer(guess(1, 0, 2, 0.4));
  reporter.offer(guess(2, 0, 1, 0.7));
  ASSERT_TRUE(reporter.acknowledge(10, clock_.now()).ok());
  EXPECT_THAT(sent(reporter), ElementsAre(2, 1));
}

TEST_F(ExitReporterTest, TheVerdictDropsWhatWaits) {
  ExitReporter reporter(ReportQueue::kPriority);
  reporter.begin_pass(1);
  fill_window(reporter);
  reporter.offer(guess(0, 0, 1, 0.1));
  reporter.end_pass(1);
  ASSERT_TRUE(reporter.acknowledge(10, clock_.now()).ok());
  EXPECT_THAT(sent(reporter), IsEmpty());
  reporter.offer(guess(0, 0, 1, 0.1));  // late
  EXPECT_THAT(sent(reporter), IsEmpty());
  EXPECT_EQ(reporter.counts().dropped, 1u);
}

TEST_F(ExitReporterTest, AnAcknowledgementOfTheUnsentIsRefused) {
  ExitReporter reporter(ReportQueue::kPriority);
  EXPECT_TRUE(reporter.acknowledge(0, clock_.now()).ok());
  const Status status = reporter.acknowledge(3, clock_.now());
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("acked_reports: 3"));
}

// A link that carries `rate` bytes per second and takes `delay` each way.
struct SlowLink {
  double rate;
  Duration delay;
  TimePoint free = {};
  std::multimap<TimePoint, std::uint32_t> acknowledgements = {};

  void send(TimePoint now, std::uint32_t seq) {
    free = std::max(free, now) + from_ms(kReportBytes / rate * 1e3);
    acknowledgements.emplace(free + 2 * delay, seq);
  }
};

// Offers far more than the link carries; the bytes in flight that the reporter ends up with.
double settled_window(double rate, Duration delay) {
  ManualClock clock;
  ExitReporter reporter(ReportQueue::kFifo);
  SlowLink link{rate, delay};
  for (int step = 0; step < 4000; ++step) {
    reporter.begin_pass(static_cast<std::uint32_t>(step));
    for (TokenId token = 0; token < 300; ++token) reporter.offer(guess(0, 0, token, 0.5));
    while (const auto report = reporter.next(clock.now())) link.send(clock.now(), report->seq);
    const auto next = link.acknowledgements.begin();
    clock.advance(next->first - clock.now());
    EXPECT_TRUE(reporter.acknowledge(next->second, clock.now()).ok());
    link.acknowledgements.erase(next);
  }
  return reporter.window_bytes();
}

TEST_F(ExitReporterTest, TheWindowSettlesNearTwiceTheBandwidthDelayProduct) {
  for (const auto& [rate, delay] : {std::pair(20e3, from_ms(30)), std::pair(100e3, from_ms(25)),
                                    std::pair(4e3, from_ms(50)), std::pair(1e3, from_ms(20))}) {
    const double product = rate * to_seconds(2 * delay) + kReportBytes;
    EXPECT_GE(settled_window(rate, delay), product) << rate;
    EXPECT_LE(settled_window(rate, delay), 3 * product) << rate;
  }
}

TEST_F(ExitReporterTest, ALinkThatNeverAcknowledgesGetsTheFirstWindowOnly) {
  ExitReporter reporter(ReportQueue::kFifo);
  std::size_t total = 0;
  for (std::uint32_t pass = 0; pass < 100; ++pass) {
    reporter.begin_pass(pass);
    reporter.offer(guess(0, 0, 1, 0.5));
    total += sent(reporter).size();
  }
  EXPECT_EQ(total, 10u);
}

TEST_F(ExitReporterTest, LittleToSayDoesNotLowerTheWindow) {
  ExitReporter reporter(ReportQueue::kFifo);
  const std::uint32_t first_window = reporter.window_bytes();
  for (std::uint32_t pass = 0; pass < 100; ++pass) {
    reporter.begin_pass(pass);
    reporter.offer(guess(0, 0, 1, 0.5));
    ASSERT_EQ(sent(reporter).size(), 1u);
    clock_.advance(from_ms(100));
    ASSERT_TRUE(reporter.acknowledge(pass + 1, clock_.now()).ok());
    reporter.end_pass(pass + 1);
    ASSERT_EQ(reporter.window_bytes(), first_window) << pass;
  }
}

TEST_F(ExitReporterTest, LittleToSayMayRaiseTheWindow) {
  ExitReporter reporter(ReportQueue::kFifo);
  const std::uint32_t first_window = reporter.window_bytes();
  reporter.begin_pass(1);
  fill_window(reporter);
  clock_.advance(from_ms(100));
  ASSERT_TRUE(reporter.acknowledge(10, clock_.now()).ok());  // all of it, in one round trip
  EXPECT_NEAR(reporter.window_bytes(), 2 * first_window, 1);
}

TEST_F(ExitReporterTest, AnAcknowledgedVerdictSettlesReportsThatWereDroppedForIt) {
  ExitReporter reporter(ReportQueue::kFifo);
  reporter.begin_pass(1);
  fill_window(reporter);
  reporter.end_pass(5);  // the verdict overtakes them all: the edge will never see them
  clock_.advance(from_ms(100));
  reporter.begin_pass(2);
  reporter.offer(guess(3, 0, 1, 0.5));
  reporter.settle(4);
  EXPECT_THAT(sent(reporter), IsEmpty());
  const std::uint32_t window = reporter.window_bytes();
  reporter.settle(5);
  EXPECT_EQ(reporter.bytes_in_flight(), 0u);
  EXPECT_EQ(reporter.window_bytes(), window);  // nothing was delivered, so nothing was measured
  EXPECT_THAT(sent(reporter), ElementsAre(3));
  EXPECT_TRUE(reporter.acknowledge(10, clock_.now()).ok());  // one had come through
  EXPECT_EQ(reporter.bytes_in_flight(), kReportBytes);
  EXPECT_TRUE(reporter.acknowledge(11, clock_.now()).ok());
  EXPECT_EQ(reporter.bytes_in_flight(), 0u);
}

// Random passes against a plain restatement of the rules.
TEST_F(ExitReporterTest, UnderRandomUseNothingIsRepeatedLateOrBeyondTheWindow) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    ExitReporter reporter(seed % 2 == 0 ? ReportQueue::kPriority : ReportQueue::kFifo);
    std::map<std::pair<NodeId, TokenId>, bool> said;  // of the pass; whether sent
    std::uint32_t pass = 0, last = 0, acked = 0;
    std::vector<std::uint32_t> last_of_pass;  // the text is as long as there were passes
    reporter.begin_pass(pass);
    for (int step = 0; step < 400; ++step) {
      clock_.advance(from_ms(static_cast<double>(random() % 5)));
      switch (random() % 9) {
        case 0:
          last_of_pass.push_back(last);
          reporter.end_pass(static_cast<Position>(last_of_pass.size()));
          reporter.begin_pass(++pass);
          said.clear();
          break;
        case 8: {
          const std::size_t position = random() % (last_of_pass.size() + 1);
          if (position > 0) acked = std::max(acked, last_of_pass[position - 1]);
          reporter.settle(static_cast<Position>(position));
          break;
        }
        case 1:
          acked += static_cast<std::uint32_t>(random() % (last - acked + 1));
          ASSERT_TRUE(reporter.acknowledge(acked, clock_.now()).ok());
          break;
        case 2:
        case 3: {
          const auto report = reporter.next(clock_.now());
          if (!report) break;
          ASSERT_EQ(report->pass, pass) << "seed " << seed;
          ASSERT_EQ(report->seq, ++last) << "seed " << seed;
          bool& sent_before = said.at({report->leaf_id, report->next_token});
          ASSERT_FALSE(sent_before) << "seed " << seed;
          sent_before = true;
          ASSERT_LE(reporter.bytes_in_flight(), reporter.window_bytes()) << "seed " << seed;
          break;
        }
        default: {
          const ExitGuess one =
              guess(static_cast<std::int32_t>(random() % 4), static_cast<NodeId>(random() % 3),
                    static_cast<TokenId>(random() % 4), static_cast<double>(random() % 100) / 99);
          said.try_emplace({one.leaf_id, one.next_token}, false);
          reporter.offer(one);
        }
      }
      ASSERT_EQ(reporter.bytes_in_flight(), (last - acked) * kReportBytes) << "seed " << seed;
    }
  }
}

EdgeMessage acknowledging(std::uint32_t seq) {
  return {.acked_reports = seq, .body = AckOnly{}};
}

TEST(ExitReportChannelTest, ASinkMayAcknowledgeAndSendAgain) {
  SystemClock clock;
  std::vector<std::uint32_t> seen;
  bool answers = false;
  std::optional<ExitReportChannel> channel;
  channel.emplace(ReportQueue::kFifo, clock, [&](const ExitReport& report) {
    seen.push_back(report.seq);
    if (!answers) return;
    channel->acknowledge(acknowledging(report.seq));
    channel->send();
  });
  channel->begin_pass(1);
  for (TokenId token = 0; token < 50; ++token) channel->offer(guess(0, 0, token, 0.5));
  EXPECT_EQ(seen.size(), 10u) << "the first window";
  answers = true;
  EXPECT_TRUE(channel->acknowledge(acknowledging(10)));
  channel->send();
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_FALSE(channel->acknowledge(acknowledging(50))) << "nothing waits";
  EXPECT_TRUE(channel->status().ok());
  EXPECT_EQ(channel->counts().sent, 50u);
}

TEST(ExitReportChannelTest, AnAcknowledgementSaysWhetherSomethingWaitsForTheRoomItMakes) {
  ManualClock clock;
  std::uint32_t sent = 0;
  ExitReportChannel channel(ReportQueue::kFifo, clock,
                            [&](const ExitReport& report) { sent = report.seq; });
  channel.begin_pass(1);
  for (TokenId token = 0; token < 12; ++token) channel.offer(guess(0, 0, token, 0.5));
  EXPECT_EQ(sent, 10u) << "the first window";
  clock.advance(from_ms(1));
  EXPECT_TRUE(channel.acknowledge(acknowledging(2)));
  EXPECT_EQ(sent, 10u) << "acknowledging sends nothing by itself";
  channel.send();
  EXPECT_EQ(sent, 12u);
  EXPECT_FALSE(channel.acknowledge(acknowledging(2)));
}

// The error stays until the scheduler asks for it, whatever is acknowledged meanwhile.
TEST(ExitReportChannelTest, AWrongAcknowledgementIsRemembered) {
  ManualClock clock;
  ExitReportChannel channel(ReportQueue::kFifo, clock, [](const ExitReport&) {});
  EXPECT_FALSE(channel.acknowledge(acknowledging(1)));
  channel.acknowledge(acknowledging(0));
  EXPECT_EQ(channel.status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace outrider
