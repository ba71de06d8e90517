// The cpu backend against transformers, and proof that each feature of a config is in the figures.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "common/engine/model/cpu/cpu_model.h"
#include "tests/golden/model_goldens.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

double cpu_distance(const std::string& directory, const ModelGolden& golden) {
  const auto files = load_model_files(directory, {});
  EXPECT_TRUE(files.ok()) << files.status().to_string();
  const auto model = make_cpu_model(*files, {.dtype = "f32", .threads = 1, .progress = {}});
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  return distance(**model, golden);
}

TEST(ModelGoldenTest, TheCpuBackendComputesWhatTransformersComputes) {
  const std::vector<ModelGolden> goldens = load_model_goldens();
  ASSERT_GE(goldens.size(), 31u);
  for (const ModelGolden& golden : goldens) {
    TestDirectory directory;
    write_golden(directory.path(), golden);
    EXPECT_LE(cpu_distance(directory.path(), golden), kGoldenBar) << golden.name;
  }
}

TEST(ModelGoldenTest, TheDemoModelsGiveTransformersLogits) {
  const std::vector<ModelGolden> goldens = load_demo_goldens();
  ASSERT_EQ(goldens.size(), 2u);
  for (const ModelGolden& golden : goldens) {
    EXPECT_LE(cpu_distance(source_dir() + "/models/" + golden.name, golden), kGoldenBar)
        << golden.name;
  }
}

// Takes a feature out of a config; false if it has none.
struct Feature {
  const char* name;
  std::function<bool(ModelConfig&)> remove;
};

template <typename T>
bool change(T& field, const T& without) {
  if (field == without) return false;
  field = without;
  return true;
}

bool remove_windows(ModelConfig& config) {
  return change(config.windows, std::vector<Position>(config.windows.size(), 0));
}

bool remove_scaling(ModelConfig& config) {
  // Dynamic scaling is plain up to the original length, where these texts end.
  if (config.rope.scaling == RopeScaling::kDynamic) return false;
  return change(config.rope.scaling, RopeScaling::kNone);
}

const std::vector<Feature> kFeatures = {
    {"tied embeddings", [](ModelConfig& c) { return change(c.tied_embeddings, false); }},
    {"q, k and v biases",
     [](ModelConfig& c) { return c.architecture != "gpt2" && change(c.qkv_bias, false); }},
    {"mlp biases",
     [](ModelConfig& c) { return c.architecture != "gpt2" && change(c.mlp_bias, false); }},
    {"activation",
     [](ModelConfig& c) {
       using enum Activation;
       return change(c.kinds.activation, c.kinds.activation == kSilu ? kGelu : kSilu);
     }},
    {"embedding scale",
     [](ModelConfig& c) { return c.architecture == "granite" && change(c.embedding_scale, 1.0); }},
    {"residual scale", [](ModelConfig& c) { return change(c.residual_scale, 1.0); }},
    {"logit divisor", [](ModelConfig& c) { return change(c.logit_divisor, 1.0); }},
    {"attention scale",
     [](ModelConfig& c) {
       return c.attention_scale > 0 &&
              change(c.attention_scale, c.architecture == "gpt2" ? 0.0 : 0.5);
     }},
    {"attention cap", [](ModelConfig& c) { return change(c.attention_cap, 0.0); }},
    {"logit cap", [](ModelConfig& c) { return change(c.logit_cap, 0.0); }},
    {"local rope theta", [](ModelConfig& c) { return change(c.local_rope.theta, 10000.0); }},
    {"rotation of some layers",
     [](ModelConfig& c) {
       if (c.layer_ropes.empty() || c.architecture != "smollm3") return false;
       c.layer_ropes.assign(c.layer_ropes.size(), LayerRope::kMain);
       return true;
     }},
    {"partial rotation", [](ModelConfig& c) { return change(c.rotated_dim, 0); }},
    {"factor of the attention",
     [](ModelConfig& c) { return change(c.rope.attention_factor, 1.0); }},
    {"number of used experts",
     [](ModelConfig& c) { return c.experts.count > 0 && change(c.experts.used, 1); }},
    {"shares of the experts",
     [](ModelConfig& c) {
       return c.architecture == "qwen3_moe" && change(c.experts.normalized, !c.experts.normalized);
     }},
    {"grouped queries", [](ModelConfig& c) { return change(c.num_kv_heads, c.num_heads); }},
    {"explicit head_dim",
     [](ModelConfig& c) { return change(c.head_dim, c.hidden_size / c.num_heads); }},
    {"rope theta", [](ModelConfig& c) { return change(c.rope.theta, 10000.0); }},
    {"rope scaling", remove_scaling},
    {"sliding window", remove_windows},
    {"norm epsilon", [](ModelConfig& c) { return change(c.rms_norm_eps, 1e-5); }},
};

// Biases of one kind cannot be written apart from the family's rule; these need its model itself.
bool remove_qk_norm(ModelConfig& config) {
  if (config.architecture != "qwen3") return false;
  config.architecture = config.qkv_bias ? "llama" : "mistral";
  config.o_bias = config.qkv_bias;
  config.qk_norm = false;
  return true;
}

TEST(ModelGoldenTest, TakingAnyOneFeatureOutShows) {
  std::set<std::string> seen;
  std::vector<Feature> features = kFeatures;
  features.push_back({"head norms", remove_qk_norm});
  for (const ModelGolden& golden : load_model_goldens()) {
    for (const Feature& feature : features) {
      ModelConfig config = *parse_config(golden.config_text, golden.name);
      if (!feature.remove(config)) continue;
      if (!config.qkv_bias) config.o_bias = false;
      if (config.architecture == "qwen2" && !config.qkv_bias) config.architecture = "llama";
      seen.insert(feature.name);
      TestDirectory directory;
      write_changed(directory.path(), golden, config, golden.storage);
      EXPECT_GT(cpu_distance(directory.path(), golden), 5 * kGoldenBar)
          << golden.name << " without " << feature.name;
    }
  }
  EXPECT_EQ(seen.size(), features.size()) << ::testing::PrintToString(seen);
}

TEST(ModelGoldenTest, TheRoundingOfStoredWeightsShows) {
  for (const ModelGolden& golden : load_model_goldens()) {
    if (golden.storage == DType::kF32) continue;
    TestDirectory directory;
    write_changed(directory.path(), golden, *parse_config(golden.config_text, golden.name),
                  DType::kF32);
    EXPECT_GT(cpu_distance(directory.path(), golden), kGoldenBar) << golden.name;
  }
}

TEST(ModelGoldenTest, DynamicRopeIsRefusedBeyondItsOriginalLength) {
  for (const ModelGolden& golden : load_model_goldens()) {
    if (golden.name != "llama_dynamic") continue;
    TestDirectory directory;
    write_golden(directory.path(), golden);
    const auto model =
        make_cpu_model(*load_model_files(directory.path(), {}), {.threads = 1, .progress = {}});
    ASSERT_TRUE(model.ok());
    const auto length = static_cast<std::int32_t>(golden.ids.size());
    const auto cache = *(*model)->new_cache(length + 1);
    Slot slot = kRootSlot;
    for (std::int32_t i = 0; i <= length; ++i) slot = *cache->slots().append(slot);
    PassOutput out;
    const std::vector<Row> rows = {{cache.get(), slot, 1}};
    EXPECT_THAT((*model)->forward(rows, out).message(),
                ::testing::HasSubstr("position 96 is beyond the model's 96"));
    return;
  }
  FAIL() << "no golden of dynamic rope";
}

}  // namespace
}  // namespace outrider
