// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/engine/model/cpu/small_models.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/model_writer.h"

namespace outrider {

namespace {

// Sets the fields that the family always has.
void set_family(ModelConfig& config) {
  const ModelFamily& family = family_of(config);
  config.kinds = family.kinds;
  config.qk_norm = family.qk_norm;
  config.qkv_bias = family.qkv_bias;
  if (family.all_biases) config.o_bias = config.mlp_bias = true;
  if (config.kinds.learned_positions) config.position_rows = 512;
}

void set_gemma(ModelConfig& config) {
  config.head_dim = 20;
  config.tied_embeddings = true;
  config.embedding_scale = std::sqrt(72.0);
  config.attention_scale = 1 / std::sqrt(24.0);
  config.logit_cap = 4;
  config.windows = {21, 0};
  if (config.architecture == "gemma2") {
    config.attention_cap = 6;
  } else {
    config.local_rope.theta = 100;
    config.layer_ropes = {LayerRope::kLocal, LayerRope::kMain};
  }
}

void set_scales(ModelConfig& config) {
  config.embedding_scale = 3;
  config.residual_scale = 0.5;
  config.attention_scale = 0.125;
  config.logit_divisor = 4;
}

}  // namespace

ModelConfig small_config(const std::string& architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.vocab_size = 101;
  config.hidden_size = 72;
  config.intermediate_size = 100;
  config.num_layers = 2;
  config.num_heads = 6;
  config.num_kv_heads = architecture == "gpt2" ? 6 : 2;
  config.head_dim = 12;
  config.max_positions = 512;
  config.rms_norm_eps = 1e-5;
  config.windows = {0, 0};
  set_family(config);
  if (architecture == "llama") {
    config.tied_embeddings = true;
    config.rope.scaling = RopeScaling::kLlama3;
    config.rope.factor = 8;
    config.rope.original_max_positions = 32;
  } else if (architecture == "mistral" || architecture == "phi3") {
    config.windows = {70, 70};
  } else if (architecture == "qwen3") {
    config.head_dim = 24;
  } else if (architecture == "gemma2" || architecture == "gemma3_text") {
    set_gemma(config);
  } else if (architecture == "granite") {
    set_scales(config);
  } else if (architecture == "smollm3") {
    config.layer_ropes = {LayerRope::kMain, LayerRope::kNone};
  }
  if (architecture == "phi3") config.rotated_dim = 8;
  if (architecture == "qwen3_moe") config.experts = {5, 2, 40, false};
  if (architecture == "mixtral") config.experts = {4, 3, 100, true};
  return config;
}

void set_layers(ModelConfig& config, std::int32_t layers) {
  config.num_layers = layers;
  config.windows.resize(static_cast<std::size_t>(layers), config.windows.back());
  if (config.layer_ropes.empty()) return;
  config.layer_ropes.resize(static_cast<std::size_t>(layers), config.layer_ropes.back());
}

std::shared_ptr<const ModelFiles> small_model(const std::string& directory,
                                              const std::string& architecture, DType dtype,
                                              std::int32_t layers) {
  ModelConfig config = small_config(architecture);
  set_layers(config, layers);
  const std::string path = directory + "/" + architecture + std::string(to_string(dtype));
  const Status written = write_model(path, config, dtype, random_source(7));
  EXPECT_TRUE(written.ok()) << written.to_string();
  auto files = load_model_files(path, {});
  EXPECT_TRUE(files.ok()) << files.status().to_string();
  return files.ok() ? *files : nullptr;
}

std::vector<TokenId> some_tokens(int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + i * i) % 101);
  return tokens;
}

}  // namespace outrider
