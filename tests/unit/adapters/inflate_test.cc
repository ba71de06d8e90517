// SPDX-License-Identifier: Apache-2.0
#include "adapters/shape/inflate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/format/model_writer.h"

namespace outrider {
namespace {

ModelConfig small_config() {
  const char* json = R"({"model_type":"llama","architectures":["LlamaForCausalLM"],
    "hidden_act":"silu","vocab_size":96,"hidden_size":64,"intermediate_size":96,
    "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
    "max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000.0,
    "tie_word_embeddings":true,"eos_token_id":1})";
  const Result<ModelConfig> config = parse_config(json, "small");
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  return *config;
}

class Inflate : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "inflate_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    small_ = root_ + "/small";
    ASSERT_TRUE(write_model(small_, small_config(), DType::kBF16, random_source(5)).ok());
    std::ofstream(small_ + "/tokenizer.json") << "{}";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static void ignore(std::int64_t, std::int64_t) {}

  std::string root_, small_;
};

// The logits of a few tokens behind each other.
std::vector<float> logits_of(const std::string& directory, const std::string& dtype) {
  const auto files = load_model_files(directory, {});
  EXPECT_TRUE(files.ok()) << files.status().to_string();
  CpuModelOptions options;
  options.dtype = dtype;
  options.threads = 1;
  Result<std::unique_ptr<Model>> model = make_cpu_model(*files, options);
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  auto cache = std::move(*(*model)->new_cache(16));
  std::vector<Row> rows;
  Slot parent = kRootSlot;
  for (const TokenId token : {5, 17, 90, 3, 44, 61}) {
    parent = *cache->slots().append(parent);
    rows.push_back({cache.get(), parent, token, true});
  }
  PassOutput out;
  EXPECT_TRUE((*model)->forward(rows, out).ok());
  return out.logits;
}

TEST_F(Inflate, WiderFeedForwardLayersGiveTheSameLogits) {
  const std::string large = root_ + "/large";
  ASSERT_TRUE(inflate(small_, 400'000, large, ignore).ok());
  const auto files = load_model_files(large, {});
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  EXPECT_EQ((*files)->config.num_layers, 2);
  EXPECT_GT((*files)->config.intermediate_size, 96);
  EXPECT_GE((*files)->weights.num_bytes(), 400'000);
  EXPECT_LT((*files)->weights.num_bytes(), 430'000);
  EXPECT_EQ(logits_of(small_, "f32"), logits_of(large, "f32"));
  EXPECT_EQ(logits_of(small_, "int8"), logits_of(large, "int8"));
}

TEST_F(Inflate, AddedLayersGiveTheSameLogits) {
  const std::string large = root_ + "/large";
  ASSERT_TRUE(inflate(small_, 5'000'000, large, ignore).ok());
  const auto files = load_model_files(large, {});
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  EXPECT_GT((*files)->config.num_layers, 2);
  EXPECT_GE((*files)->weights.num_bytes(), 5'000'000);
  EXPECT_EQ(logits_of(small_, "bf16"), logits_of(large, "bf16"));
  EXPECT_TRUE(std::filesystem::exists(large + "/tokenizer.json"));
}

TEST_F(Inflate, AddedWeightsAreRealNumbersNotZeros) {
  const std::string large = root_ + "/large";
  ASSERT_TRUE(inflate(small_, 400'000, large, ignore).ok());
  const auto files = load_model_files(large, {.check_finite = true});
  ASSERT_TRUE(files.ok());
  const TensorView& gate = (*files)->weights.at("model.layers.1.mlp.gate_proj.weight");
  std::vector<float> last(64);
  widen(gate, gate.num_elements() - 64, last);
  EXPECT_TRUE(std::any_of(last.begin(), last.end(), [](float x) { return x != 0.0f; }));
}

TEST_F(Inflate, RefusesToShrinkAndToWriteOverItself) {
  EXPECT_EQ(inflate(small_, 1000, root_ + "/large", ignore).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(inflate(small_, 400'000, small_, ignore).code(), StatusCode::kInvalidArgument);
}

TEST(InflatedShape, RefusesTooManyLayers) {
  EXPECT_EQ(inflated_shape(small_config(), std::int64_t{1} << 40).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(InitModel, RefusesUnknownShapesAndNegativeDepths) {
  const std::string out = testing::TempDir() + "init_model";
  const auto ignore = [](std::int64_t, std::int64_t) {};
  const InitOptions nonsense{.like = "no-such-model"};
  EXPECT_EQ(init_model(nonsense, out, ignore).code(), StatusCode::kNotFound);
  ASSERT_FALSE(known_shape_names().empty());
  const InitOptions negative{.like = known_shape_names()[0], .layers = -1};
  EXPECT_EQ(init_model(negative, out, ignore).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace outrider
