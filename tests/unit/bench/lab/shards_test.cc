// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/format/tensor_view.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

TEST(PlanShards, WhatMattersMostGetsMoreBitsFirst) {
  const double importance[] = {1, 3, 2};
  EXPECT_THAT(plan_shards(importance, 2), testing::ElementsAre(2, 2, 2));
  EXPECT_THAT(plan_shards(importance, 2.7), testing::ElementsAre(2, 3, 3));
  EXPECT_THAT(plan_shards(importance, 3.34), testing::ElementsAre(3, 4, 3));
  EXPECT_THAT(plan_shards(importance, 100), testing::Each(6));
  EXPECT_THAT(plan_shards(importance, 0), testing::Each(2)) << "fewer there are not";
}

// Two bits have three steps: the largest value of a group, 0 and its negative.
TEST(RoundToBits, KeepsTheLargestOfAGroupAndTheSteps) {
  std::vector<float> values(65, 0.0F);
  values[0] = -2;
  values[1] = 0.9F;
  values[2] = 1.1F;
  values[64] = 0.5F;  // a group of its own
  round_to_bits(values, 2);
  EXPECT_EQ(values[0], -2);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2], 2);
  EXPECT_EQ(values[64], 0.5F);
}

TEST(WriteShards, RoundTheMatricesOfTheirLayerAlone) {
  const TestDirectory directory;
  const auto model = small_model(directory.path(), "llama", DType::kF32);
  const std::string whole = directory.path("llama" + std::string(to_string(DType::kF32)));
  const int bits[] = {0, 2};
  ASSERT_TRUE(write_shards(whole, bits, directory.path("shards")).ok());
  const auto shards = load_model_files(directory.path("shards"), {});
  ASSERT_TRUE(shards.ok()) << shards.status().message();
  const auto same = [&](ModelPart part, int layer) {
    const std::string name = weight_name(part, layer);
    return widened(model->weights.at(name)) == widened((*shards)->weights.at(name));
  };
  EXPECT_TRUE(same(ModelPart::kQuery, 0));
  EXPECT_FALSE(same(ModelPart::kQuery, 1));
  EXPECT_TRUE(same(ModelPart::kEmbedding, 0));
  const int too_few[] = {2};
  EXPECT_EQ(write_shards(whole, too_few, directory.path("other")).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
