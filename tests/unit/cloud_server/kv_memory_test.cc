// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/kv_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(KvMemory, LeavesRoomForWeightsAndRefusesLessThanASession) {
  ModelInfo model;
  model.max_positions = 8192;
  model.weight_bytes = 1000 * kMiB;
  model.kv_bytes_per_position = kMiB;
  const std::int64_t most = *kv_cache_bytes("auto", model, 4096 * kMiB);
  EXPECT_LT(most, 3000 * kMiB);
  EXPECT_GT(most, 2000 * kMiB);
  EXPECT_EQ(*kv_cache_bytes("2G", model, 0), 2048 * kMiB);
  const Status little = kv_cache_bytes("auto", model, 1500 * kMiB).status();
  EXPECT_EQ(little.code(), StatusCode::kResourceExhausted) << "no flag is wrong";
  EXPECT_THAT(little.message(), HasSubstr("512 MiB (1024 KiB a token)"));
  EXPECT_EQ(kv_cache_bytes("1M", model, 0).status().code(), StatusCode::kInvalidArgument);
}

TEST(KvMemory, OfADeviceWithMemoryOfItsOwnIsWhatThatHas) {
  ModelInfo model;
  model.max_positions = 8192;
  model.weight_bytes = 100'000 * kMiB;
  model.kv_bytes_per_position = kMiB;
  model.most_kv_pages = 100;
  EXPECT_EQ(*kv_cache_bytes("auto", model, 4096 * kMiB), 6400 * kMiB);
  EXPECT_EQ(*kv_cache_bytes("2G", model, 0), 2048 * kMiB);
  const Status much = kv_cache_bytes("7G", model, 0).status();
  EXPECT_EQ(much.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(much.message(), HasSubstr("room for 6400 MiB beside the weights"));
}

}  // namespace
}  // namespace outrider
