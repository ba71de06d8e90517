// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/energy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/base/json_record.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

DevicePower board() {
  return {.name = "board",
          .computes = ComputeUnit::kGpu,
          .cores = 4,
          .idle_w = 4,
          .core_w = 1,
          .gpu_w = 6,
          .dram_j_per_byte = 1e-9,
          .flash_j_per_byte = 2e-9,
          .up_j_per_byte = 3e-6,
          .down_j_per_byte = 1e-6,
          .tail_s = 0.5,
          .tail_w = 2};
}

// Ten seconds; two spans that overlap; two messages within a tail, and one that outlasts the
// answer.
DeviceWork work() {
  return {.seconds = 10,
          .threads = 2,
          .computing = {{1, 3}, {2, 4}, {6, 7}},
          .messages_at = {0, 0.25, 9.75},
          .dram_bytes = 1e9,
          .flash_bytes = 1e9,
          .up_bytes = 1e3,
          .down_bytes = 2e3};
}

TEST(EnergyTest, EachPartIsWhatItTakesTimesItsWork) {
  const EnergyParts parts = energy_parts(board(), work());
  EXPECT_DOUBLE_EQ(parts.idle, 40);
  EXPECT_DOUBLE_EQ(parts.compute, 6 * 4) << "what overlaps computes once";
  EXPECT_DOUBLE_EQ(parts.dram, 1);
  EXPECT_DOUBLE_EQ(parts.flash, 2);
  EXPECT_DOUBLE_EQ(parts.radio, 3e-3 + 2e-3);
  EXPECT_DOUBLE_EQ(parts.tail, 2 * 1.25);
  EXPECT_NEAR(parts.sum(), energy_over_time(board(), work()), 1e-9);
}

TEST(EnergyTest, CoresTakePowerByTheThreadsThatTheyHave) {
  DevicePower phone = board();
  phone.computes = ComputeUnit::kCores;
  EXPECT_DOUBLE_EQ(energy_parts(phone, work()).compute, 2 * 4);
  DeviceWork wide = work();
  wide.threads = 100;
  EXPECT_DOUBLE_EQ(energy_parts(phone, wide).compute, 4 * 4);
}

TEST(EnergyTest, WithoutWorkThereIsOnlyIdle) {
  const EnergyParts parts = energy_parts(board(), {.seconds = 2});
  EXPECT_DOUBLE_EQ(parts.idle, 8);
  EXPECT_DOUBLE_EQ(parts.sum(), 8);
  EXPECT_DOUBLE_EQ(energy_over_time(board(), {}), 0);
}

// The two ways have nothing in common but the file and the work.
TEST(EnergyTest, ThePartsOfDrawnWorkSumToTheWhole) {
  SeededRandom random(7);
  for (int round = 0; round < 200; ++round) {
    const auto drawn = [&](double most) {
      return most * static_cast<double>(random.below(1000)) / 1000;
    };
    DeviceWork any{.seconds = drawn(100), .threads = 1 + static_cast<int>(random.below(8))};
    for (std::uint64_t i = random.below(60); i > 0; --i) {
      const double from = drawn(110);
      any.computing.push_back({from, from + drawn(5)});
      any.messages_at.push_back(drawn(100));
    }
    any.dram_bytes = drawn(1e12);
    any.up_bytes = drawn(1e6);
    const double whole = energy_over_time(board(), any);
    EXPECT_NEAR(energy_parts(board(), any).sum(), whole, 1e-9 * std::max(1.0, whole)) << round;
  }
}

TEST(EnergyTest, AnAnswersEnergyIsWrittenAndReadBack) {
  const AnswerEnergy energy{.device = energy_parts(board(), work()), .server = {}, .joules = 1.5};
  const auto read = read_json<AnswerEnergy>(write_json(energy), "here");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->device.compute, energy.device.compute);
  EXPECT_FALSE(read->server.has_value());
  EXPECT_EQ(read->joules, 1.5);
}

}  // namespace
}  // namespace outrider
