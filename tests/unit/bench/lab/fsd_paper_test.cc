// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/fsd_paper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<double> confidences(const std::vector<QueuedReport>& reports) {
  std::vector<double> all;
  for (const QueuedReport& one : reports) all.push_back(one.confidence);
  return all;
}

class FsdPaperTest : public testing::Test {
 protected:
  std::vector<QueuedReport> take(QueueOrder order, int workers, double until_ms) {
    return take_in_order(reports_, order, workers, 10, until_ms, random_);
  }

  // The second and third exit speak while the first one's report keeps the only worker.
  const std::vector<QueuedReport> reports_ = {{.at_ms = 1, .confidence = 0.2},
                                              {.at_ms = 2, .confidence = 0.3},
                                              {.at_ms = 3, .confidence = 0.9, .right = true}};
  SeededRandom random_{1};
};

TEST_F(FsdPaperTest, AFreeWorkerTakesTheOldestOrTheSurestOfThoseThatWait) {
  EXPECT_THAT(confidences(take(QueueOrder::kFifo, 1, 100)), ElementsAre(0.2, 0.3, 0.9));
  EXPECT_THAT(confidences(take(QueueOrder::kPriority, 1, 100)), ElementsAre(0.2, 0.9, 0.3));
}

TEST_F(FsdPaperTest, EachReportKeepsAWorkerForAWholeRound) {
  const auto one = take(QueueOrder::kFifo, 1, 100);
  EXPECT_EQ(one.back().at_ms, 31) << "begun at 1, 11 and 21";
  const auto three = take(QueueOrder::kFifo, 3, 100);
  EXPECT_EQ(three.back().at_ms, 13) << "begun when it came";
}

TEST_F(FsdPaperTest, WhatNoWorkerTookBeforeTheVerdictIsDropped) {
  EXPECT_THAT(confidences(take(QueueOrder::kFifo, 1, 21)), ElementsAre(0.2, 0.3));
  EXPECT_THAT(take(QueueOrder::kFifo, 1, 1), IsEmpty());
}

TEST_F(FsdPaperTest, AQueueThatRanEmptyWaitsForTheNextReport) {
  const std::vector<QueuedReport> apart = {{.at_ms = 1}, {.at_ms = 50}};
  EXPECT_EQ(take_in_order(apart, QueueOrder::kFifo, 2, 10, 100, random_).back().at_ms, 60);
}

TEST_F(FsdPaperTest, IdleWorkersBeginNoReportBeforeItIsThere) {
  const std::vector<QueuedReport> together = {{.at_ms = 5}, {.at_ms = 5}};
  for (const QueuedReport& done : take_in_order(together, QueueOrder::kFifo, 2, 10, 100, random_)) {
    EXPECT_EQ(done.at_ms, 15);
  }
}

TEST_F(FsdPaperTest, AHitWaitsForTheRestOfItsDraftingAndAMissForAllOfIt) {
  FsdPaperOptions options{
      .threads = 1, .client = QueueOrder::kPriority, .pass_ms = 14, .drafting_ms = 10};
  const FsdPaperRound hit = fsd_paper_round(reports_, options, random_);
  EXPECT_TRUE(hit.hit);
  EXPECT_EQ(hit.wait_ms, 7) << "drafted from 11 to 21, wanted at 14";
  options.client = QueueOrder::kFifo;
  const FsdPaperRound miss = fsd_paper_round(reports_, options, random_);
  EXPECT_FALSE(miss.hit) << "the only thread took the second report";
  EXPECT_EQ(miss.wait_ms, 10);
  options.threads = 3;
  EXPECT_EQ(fsd_paper_round(reports_, options, random_).wait_ms, 0) << "done at 13";
  options.sync_ms = 4;
  EXPECT_EQ(fsd_paper_round(reports_, options, random_).wait_ms, 4);
}

TEST_F(FsdPaperTest, ReportsAreSentOneAfterTheOther) {
  const FsdPaperOptions options{
      .threads = 3, .server = QueueOrder::kFifo, .pass_ms = 14, .drafting_ms = 10, .send_ms = 6};
  EXPECT_FALSE(fsd_paper_round(reports_, options, random_).hit) << "sent at 7, 13, and 19";
}

}  // namespace
}  // namespace outrider
