// The real model that ./run model smollm2 fetches, against transformers on its dequantised weights.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/engine/model/cpu/cpu_model.h"
#include "tests/golden/model_goldens.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

class SmolLm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string directory = source_dir() + "/models/smollm2";
    if (!std::filesystem::is_directory(directory)) {
      GTEST_SKIP() << "models/smollm2 is not there; ./run model smollm2 fetches it";
    }
    const auto files = load_model_files(directory, {.check_finite = true});
    ASSERT_TRUE(files.ok()) << files.status().to_string();
    files_ = *files;
  }

  std::shared_ptr<const ModelFiles> files_;
};

TEST_F(SmolLm2Test, ItsConfigIsThatOfThePublishedModel) {
  const ModelConfig& config = files_->config;
  EXPECT_EQ(files_->name, "SmolLM2-135M-Instruct.Q4_1");
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.num_heads, 9);
  EXPECT_EQ(config.num_kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.max_positions, 8192);
  EXPECT_EQ(config.rope.theta, 100000.0);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_THAT(config.stop_ids, ElementsAre(2, 0));  // <|im_end|>, <|endoftext|>
}

TEST_F(SmolLm2Test, ItsLogitsAreThoseOfTransformers) {
  const ModelGolden golden = load_sampled_golden("smollm2", files_->config.vocab_size);
  const auto model = make_cpu_model(files_, {.dtype = "f32", .threads = 2, .progress = {}});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_LE(distance(**model, golden), kGoldenBar);
}

}  // namespace
}  // namespace outrider
