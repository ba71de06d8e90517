// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include "common/engine/model/format/architecture.h"

namespace outrider {
namespace {

// Shapes of published models, from their config.json on the Hugging Face hub.
struct KnownShape {
  const char* name;
  const char* architecture;
  std::int32_t vocab_size;
  std::int32_t hidden_size;
  std::int32_t intermediate_size;
  std::int32_t num_layers;
  std::int32_t num_heads;
  std::int32_t num_kv_heads;
  std::int32_t head_dim;
  Position max_positions;
  double rms_norm_eps;
  double rope_theta;
  bool tied_embeddings;
  TokenId stop_id;
};

constexpr std::array<KnownShape, 15> kShapes = {{
    {"tinyllama-1.1b", "llama", 32000, 2048, 5632, 22, 32, 4, 64, 2048, 1e-5, 1e4, false, 2},
    {"llama2-7b", "llama", 32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5, 1e4, false, 2},
    {"vicuna-7b", "llama", 32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5, 1e4, false, 2},
    {"llama2-13b", "llama", 32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5, 1e4, false, 2},
    {"vicuna-13b", "llama", 32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5, 1e4, false, 2},
    {"llama2-70b", "llama", 32000, 8192, 28672, 80, 64, 8, 128, 4096, 1e-5, 1e4, false, 2},
    {"llama3-8b", "llama", 128256, 4096, 14336, 32, 32, 8, 128, 8192, 1e-5, 5e5, false, 128001},
    {"mistral-7b", "mistral", 32000, 4096, 14336, 32, 32, 8, 128, 32768, 1e-5, 1e4, false, 2},
    {"qwen2.5-0.5b", "qwen2", 151936, 896, 4864, 24, 14, 2, 64, 32768, 1e-6, 1e6, true, 151643},
    {"qwen2.5-1.5b", "qwen2", 151936, 1536, 8960, 28, 12, 2, 128, 131072, 1e-6, 1e6, true, 151643},
    {"qwen2.5-7b", "qwen2", 152064, 3584, 18944, 28, 28, 4, 128, 131072, 1e-6, 1e6, false, 151643},
    {"qwen2-7b", "qwen2", 152064, 3584, 18944, 28, 28, 4, 128, 131072, 1e-6, 1e6, false, 151643},
    {"qwen3-0.6b", "qwen3", 151936, 1024, 3072, 28, 16, 8, 128, 40960, 1e-6, 1e6, true, 151645},
    {"qwen3-1.7b", "qwen3", 151936, 2048, 6144, 28, 16, 8, 128, 40960, 1e-6, 1e6, true, 151645},
    {"qwen3-8b", "qwen3", 151936, 4096, 12288, 36, 32, 8, 128, 40960, 1e-6, 1e6, false, 151645},
}};

ModelConfig to_config(const KnownShape& shape) {
  ModelConfig config;
  config.architecture = shape.architecture;
  config.vocab_size = shape.vocab_size;
  config.hidden_size = shape.hidden_size;
  config.intermediate_size = shape.intermediate_size;
  config.num_layers = shape.num_layers;
  config.num_heads = shape.num_heads;
  config.num_kv_heads = shape.num_kv_heads;
  config.head_dim = shape.head_dim;
  config.max_positions = shape.max_positions;
  config.rms_norm_eps = shape.rms_norm_eps;
  config.tied_embeddings = shape.tied_embeddings;
  config.qkv_bias = find_family(shape.architecture)->qkv_bias;
  config.qk_norm = find_family(shape.architecture)->qk_norm;
  config.rope.theta = shape.rope_theta;
  // Mistral 7B v0.1's window is 4096; the later versions have none, and no other entry has one.
  const Position window = config.architecture == "mistral" ? 4096 : 0;
  config.windows.assign(static_cast<std::size_t>(config.num_layers), window);
  config.stop_ids = {shape.stop_id};
  return config;
}

}  // namespace

std::vector<std::string> known_shape_names() {
  std::vector<std::string> names;
  names.reserve(kShapes.size());
  for (const KnownShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

Result<ModelConfig> known_shape(std::string_view name) {
  std::string names;
  for (const KnownShape& shape : kShapes) {
    if (name == shape.name) return to_config(shape);
    names += std::string(names.empty() ? "" : ", ") + shape.name;
  }
  return not_found("no known shape \"" + std::string(name.substr(0, 60)) + "\"; known are " +
                   names);
}

}  // namespace outrider
