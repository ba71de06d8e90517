// SPDX-License-Identifier: Apache-2.0
#include "sim/virtual_run.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

constexpr std::int32_t kModelLayers = 4;

// Four layers of 10 ms of reading each; computing takes 1 ms a row, a fifth of it the output
// matrix.
FlashPace pace() {
  return {.layers = kModelLayers,
          .read_ms = 50,
          .head_share = 0.2,
          .compute = *PaceCurve::create({{1, 1}, {100, 100}})};
}

PassRowCounts rows(std::size_t count) {
  return {.rows = count, .left = count};
}

double pass_ms(const FlashPace& pace, const PassRowCounts& counts) {
  return to_ms(FlashDevice(pace).pass(TimePoint{}, counts, kModelLayers));
}

TEST(FlashDevice, APassTakesTheLongerOfReadingAndComputing) {
  EXPECT_NEAR(pass_ms(pace(), rows(1)), 50.2, 1e-6) << "the output matrix is read last";
  FlashPace resident = pace();
  resident.resident = 1;
  EXPECT_NEAR(pass_ms(resident, rows(10)), 10, 1e-6);
}

TEST(FlashDevice, WithoutOverlapBothAddUp) {
  FlashPace serial = pace();
  serial.overlapped = false;
  EXPECT_NEAR(pass_ms(serial, rows(10)), 60, 1e-6);
}

TEST(FlashDevice, RowsThatEndedComputeNoMore) {
  FlashPace resident = pace();
  resident.resident = 1;
  const PassRowCounts counts{.rows = 20, .left = 10, .ended_after = 2};
  EXPECT_NEAR(pass_ms(resident, counts), 20 * 0.4 + 10 * 0.6, 1e-6);
}

TEST(FlashDevice, HeadsOfExitsComputeAsTheOutputMatrixDoes) {
  FlashPace resident = pace();
  resident.resident = 1;
  PassRowCounts counts = rows(10);
  counts.heads = {{2, 10}, {3, 5}};
  EXPECT_NEAR(pass_ms(resident, counts), 10 + 0.2 * (10 + 5), 1e-6);
  EXPECT_NEAR(pass_ms(pace(), counts), 50 + 0.2 * 10, 1e-6)
      << "where reading bounds a pass they hide behind it";
}

TEST(FlashDevice, TheDraftHasWhatTheTargetLeaves) {
  FlashDevice device(pace());
  const Duration pass = device.pass(TimePoint{}, rows(10), kModelLayers);
  EXPECT_NEAR(to_ms(device.left_for_draft(TimePoint{}, TimePoint{} + pass)), to_ms(pass) - 10,
              1e-6);
}

}  // namespace
}  // namespace outrider
