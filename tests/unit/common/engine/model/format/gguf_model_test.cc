// Models in GGUF files: the same tensors as from a directory, and refused files.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/engine/model/format/gguf_config.h"
#include "common/engine/model/format/model_files.h"
#include "tests/unit/common/engine/model/format/small_gguf.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig tiny_model(const std::string& architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.intermediate_size = 6;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 6;
  config.max_positions = 64;
  config.rms_norm_eps = 1.0 / 1024;
  config.rope.theta = 5000;
  config.windows = {0, 0};
  config.qkv_bias = find_family(architecture)->qkv_bias;
  config.qk_norm = find_family(architecture)->qk_norm;
  return config;
}

std::vector<float> values_in(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  widen(tensor, 0, values);
  return values;
}

class GgufModelTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const ModelFiles>> load(const std::string& bytes) {
    directory_.write("model.gguf", bytes);
    return load_model_files(directory_.path("model.gguf"), {});
  }
  Status load_error(const std::string& bytes) { return load(bytes).status(); }
  Status load_error(GgufBuilder file) {
    add_gguf_tensors(file, config_, 1);
    return load_error(file.build());
  }

  ModelConfig config_ = tiny_model("llama");
  TestDirectory directory_;
};

TEST_F(GgufModelTest, EveryArchitectureGivesTheDirectorysTensorsAndConfig) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    for (const bool tied : {false, true}) {
      config_ = tiny_model(architecture);
      config_.tied_embeddings = tied;
      if (config_.architecture == "llama") {
        config_.qkv_bias = config_.o_bias = config_.mlp_bias = tied;
      }
      TestDirectory plain;
      ASSERT_TRUE(write_model(plain.path(), config_, DType::kF32, random_source(1)).ok());
      const auto expected = load_model_files(plain.path(), {});
      ASSERT_TRUE(expected.ok()) << expected.status().to_string();
      const auto files = load(small_gguf(config_, 1));
      ASSERT_TRUE(files.ok()) << files.status().to_string();
      EXPECT_EQ((*files)->name, "model");
      EXPECT_EQ(config_to_json((*files)->config, "").dump(), config_to_json(config_, "").dump());
      EXPECT_EQ((*files)->weights.tensors().size(), (*expected)->weights.tensors().size());
      for (const auto& [name, tensor] : (*expected)->weights.tensors()) {
        EXPECT_EQ(values_in((*files)->weights.at(name)), values_in(tensor)) << name;
      }
      const bool same_order = !find_family(architecture)->gguf_interleaves;
      EXPECT_EQ((*files)->fingerprint == (*expected)->fingerprint, same_order);
    }
  }
}

TEST_F(GgufModelTest, ADirectoryWithOneFileIsThatFile) {
  ASSERT_TRUE(load(small_gguf(config_, 1)).ok());
  const auto files = load_model_files(directory_.path(), {.max_context = 32, .ignore_eos = true});
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  EXPECT_EQ((*files)->config.max_positions, 32);
  EXPECT_EQ(load_config(directory_.path())->max_positions, 64);
  EXPECT_EQ(folder_of_model(directory_.path("model.gguf")), directory_.path());
  EXPECT_EQ(folder_of_model(directory_.path()), directory_.path());
  EXPECT_EQ((*load_model_files(directory_.path(), {}))->fingerprint, (*files)->fingerprint);
}

TEST_F(GgufModelTest, TheFingerprintDependsOnContentAndConfig) {
  const std::string print = (*load(small_gguf(config_, 1)))->fingerprint;
  EXPECT_NE((*load(small_gguf(config_, 2)))->fingerprint, print);
  GgufBuilder commented = gguf_keys(config_).text("general.description", "another text");
  add_gguf_tensors(commented, config_, 1);
  EXPECT_EQ((*load(commented.build()))->fingerprint, print);
  config_.rope.theta = 6000;
  EXPECT_NE((*load(small_gguf(config_, 1)))->fingerprint, print);
}

TEST_F(GgufModelTest, RopeFactorsDivideTheFrequencies) {
  const std::vector<float> factors = {1, 2.5f, 8};
  GgufBuilder file = gguf_keys(config_);
  add_gguf_tensors(file, config_, 1);
  file.tensor("rope_freqs.weight", GgufTensorType::kF32, {3},
              {reinterpret_cast<const char*>(factors.data()), 12});
  const auto files = load(file.build());
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  const std::vector<float> plain = rope_frequencies(config_.rope, 6);
  const std::vector<float> divided = rope_frequencies((*files)->config.rope, 6);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(divided[i], plain[i] / factors[i]);
  EXPECT_NE((*files)->fingerprint, (*load(small_gguf(config_, 1)))->fingerprint);
  const std::string json = config_to_json((*files)->config, "float32").dump();
  EXPECT_EQ(parse_config(json, "written")->rope.factors, factors);
}

TEST_F(GgufModelTest, BadRopeFactorsAreRefused) {
  const auto with_factors = [this](const std::vector<float>& factors, std::int64_t count) {
    GgufBuilder file = gguf_keys(config_);
    add_gguf_tensors(file, config_, 1);
    file.tensor("rope_freqs.weight", GgufTensorType::kF32, {count},
                {reinterpret_cast<const char*>(factors.data()), factors.size() * 4});
    return load_error(file.build()).message();
  };
  EXPECT_THAT(with_factors({1, 1}, 2), HasSubstr("must be of type F32 and hold 3 factors"));
  EXPECT_THAT(with_factors({1, 0, 1}, 3), HasSubstr("holds the factor 0.0"));
  EXPECT_THAT(with_factors({1, std::nanf(""), 1}, 3), HasSubstr("holds the factor nan"));
}

TEST_F(GgufModelTest, RopeScalingIsLinearOrRefused) {
  GgufBuilder linear = gguf_keys(config_).text("llama.rope.scaling.type", "linear");
  linear.f32("llama.rope.scaling.factor", 4);
  add_gguf_tensors(linear, config_, 1);
  const auto files = load(linear.build());
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  EXPECT_EQ((*files)->config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ((*files)->config.rope.factor, 4.0);
  GgufBuilder older = gguf_keys(config_).f32("llama.rope.scale_linear", 2);
  add_gguf_tensors(older, config_, 1);
  EXPECT_EQ((*load(older.build()))->config.rope.factor, 2.0);
  const Status other = load_error(gguf_keys(config_).text("llama.rope.scaling.type", "longrope"));
  EXPECT_EQ(other.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(other.message(),
              HasSubstr("\"longrope\" is not supported; supported are none, linear, yarn"));
}

TEST_F(GgufModelTest, AWindowMakesAMistral) {
  GgufBuilder file = gguf_keys(config_).u32("llama.attention.sliding_window", 16);
  add_gguf_tensors(file, config_, 1);
  const auto files = load(file.build());
  ASSERT_TRUE(files.ok());
  EXPECT_EQ((*files)->config.architecture, "mistral");
  EXPECT_THAT((*files)->config.windows, ElementsAre(16, 16));
  GgufBuilder wide = gguf_keys(config_).u32("llama.attention.sliding_window", 64);
  add_gguf_tensors(wide, config_, 1);
  EXPECT_THAT((*load(wide.build()))->config.windows, ElementsAre(0, 0));
}

TEST_F(GgufModelTest, EndTokensAreNamedByKeysOrKnownByTheirText) {
  GgufBuilder file = gguf_keys(config_)
                         .u32("tokenizer.ggml.eos_token_id", 2)
                         .u32("tokenizer.ggml.eot_token_id", 3)
                         .texts("tokenizer.ggml.tokens",
                                {"a", "<|endoftext|>", "c", "d", "<|im_end|>", "<|eot_id|>"})
                         .numbers("tokenizer.ggml.token_type", GgufValueType::kInt32,
                                  std::vector<std::int32_t>{1, 3, 3, 3, 3, 1});
  add_gguf_tensors(file, config_, 1);
  EXPECT_THAT((*load(file.build()))->config.stop_ids, ElementsAre(2, 3, 1, 4));
  EXPECT_THAT(load_error(gguf_keys(config_).u32("tokenizer.ggml.eos_token_id", 11)).message(),
              HasSubstr("tokenizer.ggml.eos_token_id is 11, must be from 0 to 10"));
}

TEST_F(GgufModelTest, MissingAndWrongKeysAreNamed) {
  for (const char* key :
       {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
        "context_length", "attention.layer_norm_rms_epsilon"}) {
    EXPECT_THAT(load_error(gguf_keys(config_, key)).message(),
                HasSubstr("model.gguf: llama." + std::string(key) + " is missing"));
  }
  EXPECT_THAT(load_error(gguf_keys(config_, "general.architecture")).message(),
              HasSubstr("general.architecture is missing"));
  const std::string name = "llama.block_count";
  const auto with = [&](GgufBuilder file) { return load_error(std::move(file)).message(); };
  EXPECT_THAT(with(gguf_keys(config_, "block_count").text(name, "two")),
              HasSubstr("llama.block_count is \"two\", must be an integer"));
  EXPECT_THAT(
      with(
          gguf_keys(config_, "block_count").value(name, GgufValueType::kUint64, ~std::uint64_t{0})),
      HasSubstr("must be from 1 to 1024"));
  EXPECT_THAT(with(gguf_keys(config_, "block_count")
                       .numbers(name, GgufValueType::kUint32, std::vector<std::uint32_t>{2})),
              HasSubstr("llama.block_count is [], must be an integer"));
  EXPECT_THAT(
      with(gguf_keys(config_, "attention.head_count_kv").u32("llama.attention.head_count_kv", 3)),
      HasSubstr("(3) must divide llama.attention.head_count (2)"));
}

TEST_F(GgufModelTest, WhatIsNotComputedIsNamed) {
  const auto with = [&](GgufBuilder file) {
    const Status status = load_error(std::move(file));
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    return status.message();
  };
  EXPECT_THAT(
      with(GgufBuilder().text("general.architecture", "mamba")),
      HasSubstr("\"mamba\" is not supported; supported are llama, qwen2, qwen3, gemma3, gemma2, "
                "gpt2, qwen3moe, phi3, granite, smollm3"));
  ModelConfig other = tiny_model("qwen2");
  EXPECT_THAT(with(gguf_keys(other).u32("qwen2.expert_count", 8)), HasSubstr("mixture of experts"));
  EXPECT_THAT(with(gguf_keys(config_, "rope.dimension_count").u32("llama.rope.dimension_count", 4)),
              HasSubstr("llama.rope.dimension_count (4) differs from the size of the heads (6)"));
  EXPECT_THAT(
      with(gguf_keys(config_, "attention.value_length").u32("llama.attention.value_length", 4)),
      HasSubstr("llama.attention.value_length (4) differs from"));
}

TEST_F(GgufModelTest, MissingUnknownAndMisshapenTensorsAreNamed) {
  const auto without = [this](const std::string& name) {
    GgufBuilder file = gguf_keys(config_);
    add_gguf_tensors(file, config_, 1, [&](const std::string& tensor) { return tensor == name; });
    return file;
  };
  EXPECT_THAT(load_error(without("token_embd.weight").build()).message(),
              HasSubstr("no matrix token_embd.weight"));
  EXPECT_THAT(load_error(without("blk.1.attn_k.weight").build()).message(),
              HasSubstr("model.gguf: tensor blk.1.attn_k.weight is missing"));
  EXPECT_THAT(
      load_error(
          without("").tensor("blk.2.attn_k.weight", GgufTensorType::kF32, {1}, "1234").build())
          .message(),
      HasSubstr("tensor \"blk.2.attn_k.weight\" is unknown to a llama model"));
  EXPECT_THAT(
      load_error(
          without("blk.0.ffn_up.weight")
              .tensor("blk.0.ffn_up.weight", GgufTensorType::kF32, {6, 4}, std::string(96, 'x'))
              .build())
          .message(),
      HasSubstr("tensor blk.0.ffn_up.weight has shape [6, 4], the file's keys require [6, 8]"));
}

TEST_F(GgufModelTest, NotANumberIsFoundInBlocksToo) {
  config_.hidden_size = 32;
  config_.head_dim = 16;
  GgufBuilder file = gguf_keys(config_);
  add_gguf_tensors(file, config_, 1,
                   [](const std::string& name) { return name == "output.weight"; });
  std::string blocks(11 * 34, '\0');
  blocks[5 * 34 + 1] = '\x7e';  // the scale of row 5: NaN
  file.tensor("output.weight", GgufTensorType::kQ8_0, {11, 32}, blocks);
  ASSERT_TRUE(load(file.build()).ok());
  const Status found =
      load_model_files(directory_.path("model.gguf"), {.check_finite = true}).status();
  EXPECT_THAT(found.message(), HasSubstr("tensor lm_head.weight, element 160, is NaN"));
}

TEST(ArchitectureTest, NamesFollowOneTable) {
  EXPECT_EQ(weight_name(ModelPart::kQuery, 3), "model.layers.3.self_attn.q_proj.weight");
  EXPECT_EQ(bias_name(ModelPart::kDown, 12), "model.layers.12.mlp.down_proj.bias");
  EXPECT_EQ(weight_name(ModelPart::kFinalNorm), "model.norm.weight");
  ModelConfig config = tiny_model("qwen3");
  EXPECT_EQ(weight_name(output_part(config)), "lm_head.weight");
  config.tied_embeddings = true;
  EXPECT_EQ(weight_name(output_part(config)), "model.embed_tokens.weight");
  const std::vector<TensorSpec> specs = expected_tensors(config);
  ASSERT_EQ(specs.size(), 2u + 2 * 11);
  const std::vector<StoredTensor> stored = stored_tensors(config, FileKind::kGguf);
  ASSERT_EQ(stored.size(), specs.size());
  EXPECT_EQ(stored.front().name, "token_embd.weight");
  EXPECT_EQ(stored.back().name, "output_norm.weight");
  EXPECT_EQ(specs[6].name, "model.layers.0.self_attn.k_norm.weight");
  EXPECT_EQ(stored[6].name, "blk.0.attn_k_norm.weight");
}

}  // namespace
}  // namespace outrider
