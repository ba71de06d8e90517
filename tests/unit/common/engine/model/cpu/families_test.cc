// Every family from a directory, a GGUF file and a pack: the same model, with the same bits.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/model_pack.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "common/engine/model/format/safetensors_writer.h"
#include "common/engine/model/format/weights.h"
#include "tests/unit/common/engine/model/chunked_logits.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/format/small_gguf.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

class FamiliesTest : public testing::TestWithParam<std::string> {
 protected:
  // A config of the family that a GGUF file can express.
  static ModelConfig config() {
    ModelConfig config = small_config(GetParam());
    if (config.head_dim == 20) config.attention_scale = 1 / std::sqrt(20.0);
    if (config.architecture == "smollm3") {
      set_layers(config, 4);
      using enum LayerRope;
      config.layer_ropes = {kMain, kMain, kMain, kNone};
    }
    if (config.architecture == "qwen3_moe") config.experts.normalized = true;
    config.rope.scaling = RopeScaling::kNone;
    return config;
  }

  std::shared_ptr<const ModelFiles> directory() {
    const std::string path = directory_.path("plain");
    const Status written = write_model(path, config(), DType::kF32, random_source(7));
    EXPECT_TRUE(written.ok()) << written.to_string();
    return load(path);
  }

  static std::shared_ptr<const ModelFiles> load(const std::string& path) {
    const auto files = load_model_files(path, {.check_finite = true});
    EXPECT_TRUE(files.ok()) << files.status().to_string();
    return files.ok() ? *files : nullptr;
  }

  static std::vector<float> logits_of(Model& model, std::size_t chunk) {
    return chunked_logits(model, some_tokens(40), chunk);
  }

  static std::vector<float> logits_of(std::shared_ptr<const ModelFiles> files,
                                      const std::string& dtype, std::size_t chunk) {
    const auto model =
        make_cpu_model(std::move(files), {.dtype = dtype, .threads = 2, .progress = {}});
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return model.ok() ? logits_of(**model, chunk) : std::vector<float>();
  }

  TestDirectory directory_;
};

TEST_P(FamiliesTest, AGgufFileIsTheDirectorysModel) {
  const auto plain = directory();
  ASSERT_NE(plain, nullptr);
  directory_.write("m.gguf", gguf_of(*plain));
  const auto gguf = load(directory_.path("m.gguf"));
  ASSERT_NE(gguf, nullptr);
  // Values that the files hold in f32 differ in f64.
  Json expected = config_to_json(plain->config, ""), found = config_to_json(gguf->config, "");
  for (const char* key : {"rms_norm_eps", "layer_norm_epsilon", "embedding_multiplier"}) {
    if (!expected.contains(key)) continue;
    EXPECT_NEAR(expected[key].get<double>(), found[key].get<double>(), 1e-6) << key;
    found[key] = expected[key];
  }
  EXPECT_EQ(found.dump(), expected.dump());
  for (const TensorSpec& spec : expected_tensors(plain->config)) {
    EXPECT_EQ(widened(gguf->weights.at(spec.name)), widened(plain->weights.at(spec.name)))
        << spec.name;
  }
  EXPECT_EQ(logits_of(gguf, "f32", 40), logits_of(plain, "f32", 40));
}

TEST_P(FamiliesTest, WhatIsWrittenIsReadBack) {
  const ModelConfig config = small_config(GetParam());
  const Json written = config_to_json(config, "float32");
  const Result<ModelConfig> read = parse_config(written.dump(), "config.json");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(config_to_json(*read, "float32"), written);
  EXPECT_EQ(read->kinds, config.kinds);
  EXPECT_EQ(read->experts, config.experts);
  EXPECT_EQ(read->rotated(), config.rotated());
  EXPECT_EQ(read->attention_scale, config.attention_scale);
  EXPECT_EQ(read->embedding_scale, config.embedding_scale);
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    EXPECT_EQ(read->rope_of(layer), config.rope_of(layer)) << layer;
    EXPECT_EQ(read->windows, config.windows);
  }
}

TEST_P(FamiliesTest, APackGivesTheModelsBitsInAnyChunks) {
  const auto files = directory();
  ASSERT_NE(files, nullptr);
  for (const std::string dtype : {"f32", "bf16", "int8", "int4"}) {
    ThreadPool pool(1);
    const auto weights =
        CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
            .load(files, *parse_compute_type(dtype));
    ASSERT_TRUE(weights.ok());
    const std::string path = directory_.path(dtype + ".pack");
    ASSERT_TRUE(write_model_pack(path, *weights, {}).ok());
    const auto pack = ModelPack::open(path);
    ASSERT_TRUE(pack.ok()) << pack.status().to_string();
    const CpuWeights packed = *pack->weights();
    const auto model = make_cpu_model(*pack->weights(), std::make_unique<ResidentLayers>(packed),
                                      {.threads = 1, .progress = {}});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    const std::vector<float> expected = logits_of(files, dtype, 40);
    EXPECT_EQ(logits_of(**model, 7), expected) << dtype;
    EXPECT_EQ(logits_of(files, dtype, 1), expected) << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamiliesTest, testing::ValuesIn(kSmallModels));

// Published GPT-2 directories lack the prefix and hold the causal masks.
TEST(Gpt2Test, ADirectoryWithoutThePrefixIsTheSameModel) {
  TestDirectory directory;
  const std::string path = directory.path("m");
  ModelConfig config = small_config("gpt2");
  config.tied_embeddings = true;
  ASSERT_TRUE(write_model(path, config, DType::kF16, random_source(7)).ok());
  const std::string print = (*load_model_files(path, {}))->fingerprint;
  const Weights stored = *Weights::open(path);
  const std::string mask(16, '\0'), other = directory.path("other");
  std::filesystem::create_directories(other);
  std::filesystem::copy_file(path + "/config.json", other + "/config.json");
  const auto rewrite = [&](const std::string& prefix, const std::string& extra) {
    std::vector<TensorBytes> tensors;
    for (const auto& [name, tensor] : stored.tensors()) {
      tensors.push_back({{prefix + name.substr(name.find('.') + 1), tensor.dtype, tensor.shape},
                         {tensor.data, tensor.num_bytes}});
    }
    tensors.push_back({{extra, DType::kF32, {2, 2}}, std::as_bytes(std::span(mask))});
    EXPECT_TRUE(write_safetensors(other + "/model.safetensors", std::move(tensors)).ok());
    return load_model_files(other, {});
  };
  const auto files = rewrite("", "h.0.attn.bias");
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  EXPECT_EQ((*files)->fingerprint, print);
  EXPECT_THAT(rewrite("", "h.0.attn.other").status().message(),
              HasSubstr("\"h.0.attn.other\" is unknown to a gpt2 model"));
  EXPECT_THAT(rewrite("model.", "h.0.attn.bias").status().message(),
              HasSubstr("tensor transformer.wte.weight is missing"));
}

Status gguf_error(const std::string& bytes) {
  TestDirectory directory;
  directory.write("m.gguf", bytes);
  return load_model_files(directory.path("m.gguf"), {}).status();
}

TEST(ExpertsTest, NoneAndMoreThanThereAreAreRefused) {
  ModelConfig config = small_config("mixtral");
  const auto with = [&config](std::int32_t count, std::int32_t used) {
    ModelConfig changed = config;
    changed.experts.count = count;
    changed.experts.used = used;
    Json json = config_to_json(changed, "float32");
    return parse_config(json.dump(), "config.json").status().message();
  };
  EXPECT_THAT(with(0, 1), HasSubstr("num_local_experts is 0, must be from 1 to 512"));
  EXPECT_THAT(with(4, 0), HasSubstr("num_experts_per_tok is 0, must be from 1 to 512"));
  EXPECT_THAT(with(4, 5), HasSubstr("num_experts_per_tok is 5, must be from 1 to 4"));
  EXPECT_THAT(with(-1, 1), HasSubstr("num_local_experts is -1"));
  config.experts.used = 5;
  EXPECT_THAT(gguf_error(gguf_keys(config)
                             .tensor("token_embd.weight", GgufTensorType::kF32, {101, 72},
                                     std::string(101 * 72 * 4, '\0'))
                             .build())
                  .message(),
              HasSubstr("llama.expert_used_count is 5, must be from 1 to 4"));
  config = small_config("qwen3_moe");
  config.num_layers = 1024;
  config.experts.count = 512;
  EXPECT_THAT(with(512, 2), HasSubstr("512 experts in each of 1024 layers"));
}

// Equal scores go to the lower ids: a router of zeros chooses the first experts.
TEST(ExpertsTest, TiesGoToTheLowerId) {
  TestDirectory directory;
  ModelConfig config = small_config("mixtral");
  const auto logits_with = [&](const std::string& name, std::int32_t silenced) {
    const TensorSource source = [&](const TensorSpec& spec, std::int64_t begin,
                                    std::span<float> out) {
      random_tensor(7, spec, begin, out);
      const bool silent =
          spec.name.ends_with("block_sparse_moe.gate.weight") ||
          spec.name.find("experts." + std::to_string(silenced) + ".w2") != std::string::npos;
      if (silent) std::ranges::fill(out, 0.0f);
    };
    EXPECT_TRUE(write_model(directory.path(name), config, DType::kF32, source).ok());
    const auto model = *make_cpu_model(*load_model_files(directory.path(name), {}),
                                       {.threads = 1, .progress = {}});
    const auto cache = *model->new_cache(2);
    const Row row{cache.get(), *cache->slots().append(kRootSlot), 5, true};
    PassOutput out;
    EXPECT_TRUE(model->forward({&row, 1}, out).ok());
    return out.logits;
  };
  const std::vector<float> all = logits_with("all", -1);
  for (std::int32_t expert = 0; expert < 3; ++expert) {
    EXPECT_NE(logits_with("m" + std::to_string(expert), expert), all) << expert;
  }
  EXPECT_EQ(logits_with("m3", 3), all);
}

}  // namespace
}  // namespace outrider
