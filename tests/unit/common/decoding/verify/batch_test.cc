// One pass for many sessions: who rides, how each ends, and what each is charged.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <numeric>

#include "tests/unit/common/decoding/verify/batch_fixture.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// --- who rides ----------------------------------------------------------------------------------

TEST_F(BatchTest, AllWhoAreReadyShareAPassAndEachTextIsItsOwn) {
  begin();
  std::vector<Open> asked;
  for (TokenId first = 1; first <= 3; ++first) {
    asked.push_back(open_message({first, 2}, 5 + first));
    asked.back().sampling.temperature = first == 2 ? 0.8f : 0.0f;
    open(static_cast<StreamId>(first), asked.back());
  }
  EXPECT_THAT(ride(), ElementsAre(1, 2, 3));
  EXPECT_THAT(ride(), ElementsAre(1, 2, 3));
  ride_to_the_end();
  for (StreamId stream = 1; stream <= 3; ++stream) {
    EXPECT_EQ(answer(stream), expected(asked[stream - 1])) << stream;
    EXPECT_TRUE(ended(stream)->ok());
  }
  const SchedulerStats stats = scheduler().stats();
  EXPECT_EQ(stats.passes, 6u + 7 + 8);
  EXPECT_EQ(stats.device_passes, 8u);
}

TEST_F(BatchTest, AModelThatChoosesItselfGivesTheSameTexts) {
  device_.chooses = true;
  begin();
  std::vector<Open> asked;
  for (TokenId first = 1; first <= 3; ++first) {
    asked.push_back(open_message({first, 2}, 12));
    asked.back().sampling = {.temperature = first == 2 ? 0.8f : 0.0f};
    asked.back().seed = 40 + static_cast<std::uint64_t>(first);
    open(static_cast<StreamId>(first), asked.back());
  }
  ride();
  grow(2, {{1, 0, 200}, {2, 0, 100}});
  ride_to_the_end();
  for (StreamId stream = 1; stream <= 3; ++stream) {
    EXPECT_EQ(answer(stream), expected(asked[stream - 1])) << stream;
  }
}

TEST_F(BatchTest, TheDeviceIsIdleOnlyWhileASessionWaitsForIt) {
  begin();
  clock_.advance(from_ms(50));
  open(1, open_message({1}));
  ride();
  EXPECT_EQ(scheduler().stats().idle, Duration{0}) << "before the first pass nothing can wait";
  clock_.advance(from_ms(3));  // choosing, and what else lies between passes
  ride();
  EXPECT_EQ(scheduler().stats().idle, from_ms(3));
  ride_to_the_end();
  clock_.advance(from_ms(500));  // nobody is there
  open(2, open_message({2}));
  clock_.advance(from_ms(4));
  ride();
  EXPECT_EQ(scheduler().stats().idle, from_ms(3 + 4)) << "since the session came, not longer";
}

TEST_F(BatchTest, WhoDoesNotFitComesFirstInTheNext) {
  options_.max_batched_rows = 2;
  options_.prefill_chunk = 1;
  begin();
  for (StreamId stream = 1; stream <= 3; ++stream) open(stream, open_message({1}));
  EXPECT_THAT(ride(), ElementsAre(1, 2));
  EXPECT_THAT(ride(), ElementsAre(3, 1));
  EXPECT_THAT(ride(), ElementsAre(2, 3));
}

TEST_F(BatchTest, AFullPassTakesTheMostPromisingNodesOfAll) {
  options_.max_batched_rows = 5;
  begin();
  for (StreamId stream = 1; stream <= 2; ++stream) open(stream, open_message({1}, 20));
  ride();
  grow(1, {{1, 0, 200}, {2, 0, 100}});
  grow(2, {{1, 0, 200}, {2, 0, 100}, {3, 0, 50}});
  EXPECT_THAT(ride(), ElementsAre(1, 2));
  EXPECT_EQ(heard<Verdict>(1)[1].rows, 3u);
  EXPECT_EQ(heard<Verdict>(2)[1].rows, 2u);
  EXPECT_THAT(heard<Started>(1)[1].left_out, IsEmpty());
  EXPECT_THAT(heard<Started>(2)[1].left_out, ElementsAre(2, 3));
}

// A row takes a millisecond, in which two sessions that get 50 tokens a second each lose 0.1.
TEST_F(BatchTest, ANodeThatIsNotWorthItsTimeWaitsWhileOthersDo) {
  for (std::size_t rows = 1; rows <= 4; ++rows) {
    options_.pass_costs.add(rows, false, from_ms(19.0 + static_cast<double>(rows)));
  }
  begin();
  open(1, open_message({1}, 40));
  ride(from_ms(20));
  grow(1, {{1, 0, 200}, {2, 0, 10}});
  ride(from_ms(20));
  EXPECT_THAT(heard<Started>(1)[1].left_out, IsEmpty()) << "alone it has all";
  open(2, open_message({1}, 40));
  for (int pass = 0; pass < 4; ++pass) ride(from_ms(20));
  const NodeId first = scheduler().session(1)->tree().ids().last_id() + 1;
  grow(1, {{1, 0, 200}, {2, 0, 10}});
  EXPECT_THAT(ride(from_ms(20)), testing::UnorderedElementsAre(1, 2));
  EXPECT_THAT(heard<Started>(1).back().left_out, ElementsAre(first + 1));
  EXPECT_EQ(heard<Verdict>(1).back().rows, 2u);
}

// Else nobody would know what passes of few rows take, where all draft always.
TEST_F(BatchTest, NowAndThenAPassCarriesTheTextsAlone) {
  begin();
  int bare = 0;
  for (StreamId stream = 1; device_.passes.size() < 512; ++stream) {
    const Open asked = open_message({1, 2}, 200);
    open(stream, asked);
    ride();  // the prompt's two rows
    while (!ended(stream) && device_.passes.size() < 512) {
      const bool drafts = scheduler().session(stream)->tree().end() < asked.end_position - 1;
      if (drafts) grow(stream, {{0, 0, 200}, {1, 0, 200}});
      ride();
      bare += drafts && device_.passes.back().rows == 1 ? 1 : 0;
    }
  }
  EXPECT_EQ(bare, 2);
}

TEST_F(BatchTest, ATreeLargerThanABatchHasAPassOfItsOwn) {
  options_.max_batched_rows = 2;
  begin();
  open(1, open_message({1}, 20));
  ride();
  grow(1, {{1, 0, 200}, {2, 0, 100}, {3, 0, 50}});
  EXPECT_THAT(ride(), ElementsAre(1));
  EXPECT_EQ(heard<Verdict>(1)[1].rows, 4u);
}

// --- prompts ------------------------------------------------------------------------------------

TEST_F(BatchTest, PromptsShareABudgetWhileSomebodyAwaitsAVerdict) {
  options_.prefill_budget = 3;
  begin();
  open(1, open_message({1}, 40));
  ride();
  const Open second = open_message({1, 2, 3, 4, 5, 6, 7}), third = open_message({7, 6, 5, 4, 3});
  open(2, second);
  open(3, third);
  EXPECT_THAT(ride(), ElementsAre(1, 2)) << "no more than three tokens in a pass";
  ASSERT_THAT(heard<Progress>(2), SizeIs(1));
  EXPECT_EQ(heard<Progress>(2)[0].done, 3);
  EXPECT_THAT(ride(), ElementsAre(3, 1)) << "turns go round among prompts too";
  EXPECT_EQ(heard<Progress>(3)[0].done, 3);
  EXPECT_EQ(device_.passes.back().rows, 4u);
  ride_to_the_end();
  EXPECT_EQ(answer(2), expected(second));
  EXPECT_EQ(answer(3), expected(third));
}

TEST_F(BatchTest, WhatIsLeftOfTheBudgetGoesToTheNextPrompt) {
  options_.prefill_budget = 3;
  begin();
  open(1, open_message({1}, 40));
  ride();
  open(2, open_message({1, 2}));
  open(3, open_message({7, 6, 5, 4, 3}));
  EXPECT_THAT(ride(), ElementsAre(1, 2, 3));
  EXPECT_THAT(heard<Verdict>(2), SizeIs(1));
  EXPECT_EQ(heard<Progress>(3)[0].done, 1);
}

TEST_F(BatchTest, PromptsAreReadInWholeChunksWhileNobodyAwaitsAVerdict) {
  options_.prefill_budget = 1;
  begin();
  open(1, open_message({1, 2, 3, 4, 5, 6, 7}));
  open(2, open_message({7, 6, 5, 4, 3}));
  EXPECT_THAT(ride(), ElementsAre(1, 2));
  EXPECT_EQ(heard<Progress>(1)[0].done, 4);
  EXPECT_EQ(heard<Progress>(2)[0].done, 4);
}

// A row takes a millisecond. Of four tenants, each may have three eighths of the device: beside the
// others' three rows that is 1.8 of 4.8 a pass.
TEST_F(BatchTest, APromptTakesNoMoreOfTheDeviceThanItsTenantsShare) {
  options_.prefill_budget = 3;
  begin();
  const auto rows_of_next = [&] {
    ride_by_rows(Duration{0}, from_ms(1));
    return device_.passes.back().rows;
  };
  for (const StreamId modest : {1, 2, 3}) {
    const std::string tenant = "modest " + std::to_string(modest);
    open(modest, open_message({1}, 100), {.tenant = tenant, .group = tenant});
  }
  EXPECT_EQ(rows_of_next(), 3u);
  open(4, open_message(std::vector<TokenId>(60, 2), 5), {.tenant = "greedy", .group = "greedy"});
  EXPECT_EQ(rows_of_next(), 6u) << "the whole budget at first";
  std::size_t rows = 9;
  for (int pass = 2; pass < 25; ++pass) rows += rows_of_next();
  EXPECT_EQ(scheduler().session(4)->is_prefilling(), true);
  EXPECT_NEAR(static_cast<double>(rows), 25 * 4.8, 3);
}

class LongPromptTest : public BatchTest {
 protected:
  static constexpr Position kPrompt = 60'000, kAnswer = 1'200;
  LongPromptTest() : BatchTest(kPrompt + 100) {}

  // Runs passes that take as long as on a GPU that computes rows beside reading a 7B model's
  // weights. Returns the riders, which get their verdicts at once.
  std::vector<StreamId> ride_on_gpu() {
    const std::vector<StreamId> served = ride_by_rows(from_ms(18), from_ms(0.1));
    for (const StreamId stream : served) {
      const VerifySession* const session = scheduler().session(stream);
      if (session == nullptr) continue;  // it is over
      scheduler().receive(stream, {session->tree().end(), 0, AckOnly{}}, now());
    }
    return served;
  }
};

TEST_F(LongPromptTest, SixtyThousandTokensDelayNobodyByMoreThanTwoPasses) {
  const SchedulerOptions usual;
  options_.prefill_chunk = usual.prefill_chunk;
  options_.prefill_budget = usual.prefill_budget;
  options_.max_batched_rows = usual.max_batched_rows;
  options_.max_concurrent_sessions = 9;
  begin();
  std::vector<Open> asked;
  for (StreamId stream = 1; stream <= 8; ++stream) {
    asked.push_back(open_message({static_cast<TokenId>(stream - 1)}, kAnswer));
    open(stream, asked.back());
  }
  const TimePoint before = now();
  EXPECT_THAT(ride_on_gpu(), SizeIs(8));
  const Duration pass = now() - before;
  const Open longest = open_message(std::vector<TokenId>(kPrompt, 3), 5);
  open(9, longest);
  std::vector<TimePoint> last(9, now());
  Duration most{0};
  int passes = 0;
  for (; heard<Verdict>(9).empty() && passes < 2000; ++passes) {
    for (const StreamId stream : ride_on_gpu()) {
      if (stream == 9) continue;
      most = std::max(most, now() - last[stream]);
      last[stream] = now();
    }
  }
  for (StreamId stream = 1; stream <= 8; ++stream) most = std::max(most, now() - last[stream]);
  EXPECT_LE(most - pass, 2 * pass);
  EXPECT_LT(passes, 1100) << "nor do they keep the prompt waiting";
  for (StreamId stream = 1; stream <= 9; ++stream) {
    while (scheduler().session(stream) != nullptr && !HasFailure()) ride_on_gpu();
  }
  EXPECT_EQ(answer(9), expected(longest));
  for (StreamId stream = 1; stream <= 8; ++stream) {
    EXPECT_EQ(answer(stream), expected(asked[stream - 1])) << stream;
  }
}

// --- one leaves ---------------------------------------------------------------------------------

TEST_F(BatchTest, ARowThatNamesNoTokenEndsItsSessionAndNoOther) {
  begin();
  std::vector<Open> asked;
  for (TokenId first = 1; first <= 3; ++first) {
    asked.push_back(open_message({first}));
    open(static_cast<StreamId>(first), asked.back());
  }
  model_.spoil_next_passes(1);  // its last row
  EXPECT_THAT(ride(), ElementsAre(1, 2, 3));
  EXPECT_EQ(ended(3)->code(), StatusCode::kDataLoss);
  EXPECT_THAT(heard<Verdict>(3), IsEmpty());
  ride_to_the_end();
  EXPECT_EQ(answer(1), expected(asked[0]));
  EXPECT_EQ(answer(2), expected(asked[1]));
}

TEST_F(BatchTest, AFailedPassEndsAllWhoRodeAndNobodyElse) {
  options_.max_batched_rows = 2;
  options_.prefill_chunk = 1;
  begin();
  const Open asked = open_message({3});
  open(1, open_message({1}));
  open(2, open_message({2}));
  open(3, asked);
  model_.break_next_passes(1);
  ride();
  EXPECT_EQ(ended(1)->code(), StatusCode::kInternal);
  EXPECT_EQ(ended(2)->code(), StatusCode::kInternal);
  EXPECT_EQ(scheduler().stats().failed_in_a_row, 1u) << "one turn, not two";
  ride_to_the_end();
  EXPECT_EQ(answer(3), expected(asked));
  EXPECT_EQ(scheduler().stats().failed_in_a_row, 0u);
}

TEST_F(BatchTest, ASessionWithoutMemoryEndsAndTheOthersRide) {
  ToyModel model(8, 4096);
  model.set_kv_bytes_per_position(1024);
  options_.kv.max_bytes = 11 * 64 * 1024;
  scheduler_.emplace(model, options_);
  const Open small = open_message({2}, 100);
  open(1, open_message({1}, 2000));
  open(2, small);
  while (!ride().empty() && !ended(1)) {
    for (const StreamId stream : {1, 2}) {
      const VerifySession* session = scheduler().session(stream);
      if (session == nullptr) continue;
      scheduler().receive(stream, {.acked_position = session->tree().end(), .body = AckOnly{}},
                          now());
    }
  }
  ride_to_the_end();
  ASSERT_TRUE(ended(1));
  EXPECT_EQ(ended(1)->code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(heard<Usage>(2).size(), 1u);
}

class AbandonedTest : public BatchTest {
 protected:
  // Two streams whose owners may go, and one whose owner says nothing of it.
  void open_all(StreamId streams) {
    begin();
    for (StreamId stream = 1; stream <= streams; ++stream) {
      asked_.push_back(open_message({static_cast<TokenId>(stream)}));
      scheduler().connect(stream, "session-" + std::to_string(stream), now(),
                          {.abandoned = stream <= 2 ? flags_[stream - 1] : nullptr}, {});
      scheduler().receive(stream, {.body = asked_.back()}, now());
    }
  }

  std::shared_ptr<std::atomic<bool>> flags_[2] = {std::make_shared<std::atomic<bool>>(false),
                                                  std::make_shared<std::atomic<bool>>(false)};
  std::vector<Open> asked_;
};

TEST_F(AbandonedTest, WhoIsAbandonedGetsNoVerdictAndTheOthersDo) {
  open_all(2);
  *flags_[0] = true;
  EXPECT_THAT(ride(), ElementsAre(1, 2));
  EXPECT_EQ(ended(1)->code(), StatusCode::kCancelled);
  EXPECT_THAT(heard<Verdict>(1), IsEmpty());
  ride_to_the_end();
  EXPECT_EQ(answer(2), expected(asked_[1]));
  EXPECT_EQ(device_.passes[0].flags, 2u);
}

TEST_F(AbandonedTest, APassEndsEarlyOnlyWhenNobodyWantsIt) {
  open_all(2);
  *flags_[0] = *flags_[1] = true;
  ride();
  EXPECT_EQ(ended(1)->code(), StatusCode::kCancelled);
  EXPECT_EQ(ended(2)->code(), StatusCode::kCancelled);
}

TEST_F(AbandonedTest, APassWithOneWhoCannotBeAbandonedGoesToItsEnd) {
  open_all(3);
  *flags_[0] = *flags_[1] = true;
  ride();
  EXPECT_EQ(device_.passes[0].flags, 0u);
  EXPECT_THAT(heard<Verdict>(3), SizeIs(1));
  EXPECT_THAT(heard<Verdict>(1), IsEmpty());
}

// --- what each is charged -----------------------------------------------------------------------

TEST_F(BatchTest, TheSharesOfAPassAreThePass) {
  begin();
  for (StreamId stream = 1; stream <= 3; ++stream) open(stream, open_message({1}, 20));
  ride(Duration{1000});
  const auto compute = [&](StreamId stream) {
    return scheduler().session(stream)->usage().compute;
  };
  EXPECT_EQ(compute(1) + compute(2) + compute(3), Duration{1000});
  EXPECT_EQ(compute(1), Duration{333});
  EXPECT_EQ(scheduler().stats().compute, Duration{1000});
  EXPECT_EQ(heard<Verdict>(1)[0].timings.computed, Duration{1000}) << "which the edge waits for";
  grow(2, {{1, 0, 200}, {2, 0, 100}});
  const Duration before = compute(2);
  ride(Duration{1000});
  EXPECT_EQ(compute(2) - before, Duration{600}) << "three rows of five";
  EXPECT_EQ(scheduler().stats().compute, Duration{2000});
}

TEST_F(BatchTest, EnergyAndRowsGoByRows) {
  double used = 0;
  options_.joules = [&] { return std::optional(used += 6.0); };
  std::vector<std::pair<std::string, std::size_t>> told;
  options_.on_rows = [&](const std::string& tenant, std::size_t rows, TimePoint) {
    told.emplace_back(tenant, rows);
  };
  begin();
  open(1, open_message({1}, 1), {.tenant = "alice"});
  open(2, open_message({1, 2}, 1), {.tenant = "bob"});
  ride();
  EXPECT_THAT(told, ElementsAre(testing::Pair("alice", 1u), testing::Pair("bob", 2u)));
  const std::vector<SessionRecord> records = scheduler().take_records();
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_DOUBLE_EQ(*records[0].joules, 2.0);
  EXPECT_DOUBLE_EQ(*records[1].joules, 4.0);
}

TEST_F(BatchTest, AVerdictTellsTheRowsOfAllWhoRode) {
  begin();
  open(1, open_message({1}), {.tenant = "alice"});
  open(2, open_message({1}), {.tenant = "bob"});
  open(3, open_message({1}), {.tenant = "carol", .coarse_times = true});
  ride();
  EXPECT_EQ(heard<Verdict>(1)[0].rows, 1u);
  EXPECT_EQ(heard<Verdict>(1)[0].batch_rows, 3u);
  EXPECT_EQ(heard<Verdict>(3)[0].batch_rows, 4u) << "rounded up to a power of two";
}

TEST_F(BatchTest, WhoRidesAloneIsToldNothingOfIt) {
  begin();
  open(1, open_message({1, 2, 3, 4, 5, 6}), {.tenant = "carol", .coarse_times = true});
  ride_to_the_end();
  for (const Verdict& verdict : heard<Verdict>(1)) EXPECT_EQ(verdict.batch_rows, 0u);
  EXPECT_EQ(heard<Progress>(1).size(), 1u) << "chunks as ever";
}

}  // namespace
}  // namespace outrider
