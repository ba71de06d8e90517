// Models on a device, by what is asked for. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/devices/device_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::HasSubstr;

TEST(DeviceModels, KeysAndValuesHaveRoomForThePositionsThatWereAskedAtMostForTwoContexts) {
  TestDirectory directory;
  const auto files = small_model(directory.path(), "llama", DType::kF32, 1);
  ASSERT_NE(files, nullptr);
  const auto pages = [&](Position positions) {
    const auto model = make_device_model(files, {.device = "host-cuda", .kv_positions = positions});
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return model.ok() ? std::int64_t{(*model)->info().most_kv_pages} : 0;
  };
  const std::int64_t two = 2 * (std::int64_t{files->config.max_positions} + 1024) / 64;
  const std::int64_t most = pages(std::numeric_limits<Position>::max());
  EXPECT_GE(most, two);
  EXPECT_LE(most, two + 4);
  EXPECT_EQ(pages(1'000'000'000), most);
  EXPECT_LT(pages(16), most);
}

TEST(DeviceModels, WhatThisProgramWasNotBuiltWithIsRefused) {
  for (const std::string device : {"cuda", "torch-cuda"}) {
    const auto refused = make_device_model(nullptr, {.device = device});
    EXPECT_THAT(refused.status().message(), HasSubstr(device + ": this program was built without"));
    EXPECT_THAT(refused.status().message(), HasSubstr("Remedy"));
    const StreamingDevice streaming = streaming_device({.device = device});
    EXPECT_EQ(streaming.needs({}).status().message(), refused.status().message());
    EXPECT_EQ(streaming.make({}).status().message(), refused.status().message());
  }
}

}  // namespace
}  // namespace outrider
