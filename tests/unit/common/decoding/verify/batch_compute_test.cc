// How one pass for many sessions is computed: exits, pruning, choosing, logits on demand.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/toy_exits.h"
#include "tests/unit/common/decoding/verify/batch_fixture.h"

namespace outrider {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Counts what the heads are computed for.
class CountedExits final : public ExitHeads {
 public:
  explicit CountedExits(const ToyModel& model) : exits_(model) {}

  std::span<const std::int32_t> layers() const override { return exits_.layers(); }
  void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) override {
    products.push_back(rows.count);
    exits_.compute(exit, rows, logits);
  }
  DraftPrior prior(std::size_t exit, double temperature) const override {
    return exits_.prior(exit, temperature);
  }
  double confidence(std::size_t exit, double temperature,
                    std::span<const RowEvidence> rows) const override {
    return exits_.confidence(exit, temperature, rows);
  }

  std::vector<std::size_t> products;  // rows of each

 private:
  ToyExits exits_;
};

class WatchedRidersTest : public BatchTest {
 protected:
  void open_all(std::vector<bool> wants_exits) {
    options_.exits = &exits_;
    begin();
    for (std::size_t i = 0; i < wants_exits.size(); ++i) {
      const StreamId stream = i + 1;
      Open open = open_message({static_cast<TokenId>(stream)}, 20);
      open.policy.wants_exits = wants_exits[i];
      reports_.push_back(std::make_shared<ExitReportChannel>(
          ReportQueue::kGain, [this, stream](const ExitReport&) { reported_.push_back(stream); }));
      scheduler().connect(stream, "session-" + std::to_string(stream), now(),
                          {.reports = reports_.back()}, {});
      scheduler().receive(stream, {.body = std::move(open)}, now());
    }
  }

  CountedExits exits_{model_};
  std::vector<std::shared_ptr<ExitReportChannel>> reports_;
  std::vector<StreamId> reported_;
};

TEST_F(WatchedRidersTest, HeadsAreComputedOnceForAllWhoWantExitsAndForNobodyElse) {
  open_all({true, false, false, true});
  ride();
  // The toy shows four rows in two parts, one and three of them, through three exits.
  EXPECT_THAT(exits_.products, SizeIs(6));
  EXPECT_THAT(exits_.products, Each(1u));
  EXPECT_THAT(reported_, testing::Contains(1));
  EXPECT_THAT(reported_, testing::Contains(4));
  EXPECT_THAT(reported_, Each(testing::AnyOf(1, 4)));
  exits_.products.clear();
  scheduler().disconnect(2);
  scheduler().disconnect(3);
  ride();
  EXPECT_THAT(exits_.products, SizeIs(3)) << "two rows in one part";
  EXPECT_THAT(exits_.products, Each(2u));
}

TEST_F(WatchedRidersTest, WhereNobodyWantsExitsNobodyLooks) {
  open_all({false, false});
  ride();
  EXPECT_THAT(exits_.products, IsEmpty());
  EXPECT_FALSE(device_.passes[0].tapped);
}

TEST_F(BatchTest, BranchesOfSeveralRidersArePruned) {
  ToyExits exits(model_);
  options_.exits = &exits;
  options_.prune_below = 0.4;
  begin();
  std::vector<Open> asked;
  for (TokenId first = 1; first <= 3; ++first) {
    asked.push_back(open_message({first}, 30));
    open(static_cast<StreamId>(first), asked.back());
  }
  while (!ride().empty()) {
    for (StreamId stream = 1; stream <= 3; ++stream) {
      if (scheduler().session(stream) == nullptr) continue;
      grow(stream, {{1, 0, 128}, {2, 0, 128}, {3, 0, 128}, {4, 1, 128}, {5, 2, 128}});
    }
  }
  for (StreamId stream = 1; stream <= 3; ++stream) {
    EXPECT_EQ(answer(stream), expected(asked[stream - 1]));
  }
  EXPECT_GT(scheduler().stats().pruned.rows_ended, 20u);
}

TEST_F(BatchTest, ChoosingOnManyThreadsGivesTheSameTexts) {
  ThreadPool threads(3);
  device_.threads = &threads;
  begin();
  std::vector<Open> asked;
  for (TokenId first = 0; first < 8; ++first) {
    asked.push_back(open_message({first}, 40));
    asked.back().sampling = {.temperature = 0.9f, .top_k = 5, .top_p = 0.9f};
    asked.back().seed = static_cast<std::uint64_t>(first);
    open(static_cast<StreamId>(first) + 1, asked.back());
  }
  ride_to_the_end();
  for (StreamId stream = 1; stream <= 8; ++stream) {
    EXPECT_EQ(answer(stream), expected(asked[stream - 1])) << stream;
  }
}

TEST_F(BatchTest, LogitsOnDemandAreThoseOfEachRider) {
  options_.logits_on_demand = true;
  begin();
  std::vector<Open> asked;
  for (TokenId first = 1; first <= 4; ++first) {
    asked.push_back(open_message({first}, 20));
    open(static_cast<StreamId>(first), asked.back());
  }
  ride_to_the_end();
  for (StreamId stream = 1; stream <= 4; ++stream) {
    EXPECT_EQ(answer(stream), expected(asked[stream - 1])) << stream;
  }
}

TEST_F(BatchTest, EachReaderOfALongPromptIsToldHowFarItIs) {
  options_.prefill_chunk = 400;
  options_.max_batched_rows = 2000;
  ToyModel model(8, 1024);
  scheduler_.emplace(model, options_);
  std::vector<StreamId> told;
  for (StreamId stream = 1; stream <= 2; ++stream) {
    scheduler().connect(
        stream, "session-" + std::to_string(stream), now(),
        {.on_progress = [&told, stream](const Progress&) { told.push_back(stream); }}, {});
    scheduler().receive(
        stream, {.body = open_message(std::vector<TokenId>(300, static_cast<TokenId>(stream)))},
        now());
  }
  ride();
  EXPECT_THAT(told, ElementsAre(1, 2, 1, 2, 1, 2, 1, 2)) << "after each layer";
}

}  // namespace
}  // namespace outrider
