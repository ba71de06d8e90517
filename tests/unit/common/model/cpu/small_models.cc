// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/model/cpu/small_models.h"

#include <gtest/gtest.h>

#include "common/model/format/model_writer.h"

namespace outrider {

ModelConfig small_config(const std::string& architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.vocab_size = 101;
  config.hidden_size = 72;
  config.intermediate_size = 100;
  config.num_layers = 2;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = 12;
  config.max_positions = 512;
  config.rms_norm_eps = 1e-5;
  config.windows = {0, 0};
  if (architecture == "llama") {
    config.tied_embeddings = true;
    config.rope.scaling = RopeScaling::kLlama3;
    config.rope.factor = 8;
    config.rope.original_max_positions = 32;
  } else if (architecture == "mistral") {
    config.windows = {70, 70};
  } else if (architecture == "qwen2") {
    config.qkv_bias = true;
  } else if (architecture == "qwen3") {
    config.qk_norm = true;
    config.head_dim = 24;
  }
  return config;
}

std::shared_ptr<const ModelFiles> small_model(const std::string& directory,
                                              const std::string& architecture, DType dtype,
                                              std::int32_t layers) {
  ModelConfig config = small_config(architecture);
  config.num_layers = layers;
  config.windows.resize(static_cast<std::size_t>(layers), config.windows.back());
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
