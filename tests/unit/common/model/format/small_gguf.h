// Small models as GGUF files, with the weights that model_writer.h would give their directories.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/model/format/architecture.h"
#include "common/model/format/model_writer.h"
#include "tests/unit/common/gguf/gguf_builder.h"

namespace outrider {

// The keys of a llama, qwen2 or qwen3 model; a caller may leave one out or add others.
inline GgufBuilder gguf_keys(const ModelConfig& config, const std::string& without = "") {
  const std::string name = find_family(config.architecture)->gguf_name;
  GgufBuilder file;
  const auto number = [&](const std::string& key, std::int64_t value) {
    if (key != without) file.u32(name + "." + key, static_cast<std::uint32_t>(value));
  };
  if (without != "general.architecture") file.text("general.architecture", name);
  number("block_count", config.num_layers);
  number("embedding_length", config.hidden_size);
  number("feed_forward_length", config.intermediate_size);
  number("attention.head_count", config.num_heads);
  number("attention.head_count_kv", config.num_kv_heads);
  number("attention.key_length", config.head_dim);
  number("attention.value_length", config.head_dim);
  number("rope.dimension_count", config.head_dim);
  number("context_length", config.max_positions);
  if (without != "attention.layer_norm_rms_epsilon") {
    file.f32(name + ".attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_eps));
  }
  file.f32(name + ".rope.freq_base", static_cast<float>(config.rope.theta));
  return file;
}

// Values as f32; rows of queries and keys of a llama model in GGUF's order: pairs beside each
// other.
inline std::string gguf_tensor_bytes(const ModelConfig& config, const TensorSpec& spec,
                                     std::uint64_t seed) {
  std::int64_t size = 1;
  for (const std::int64_t length : spec.shape) size *= length;
  std::vector<float> values(static_cast<std::size_t>(size));
  random_tensor(seed, spec, 0, values);
  if (!spec.rotated || !find_family(config.architecture)->gguf_interleaves) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  const auto columns = static_cast<std::size_t>(size / spec.shape[0]);
  const auto half = static_cast<std::size_t>(config.head_dim) / 2;
  std::string bytes;
  for (std::size_t head = 0; head < values.size() / columns / (2 * half); ++head) {
    for (std::size_t pair = 0; pair < half; ++pair) {
      for (const std::size_t row : {head * 2 * half + pair, head * 2 * half + half + pair}) {
        bytes.append(reinterpret_cast<const char*>(values.data() + row * columns),
                     columns * sizeof(float));
      }
    }
  }
  return bytes;
}

// All tensors except those whose GGUF name `skip` accepts.
inline void add_gguf_tensors(
    GgufBuilder& file, const ModelConfig& config, std::uint64_t seed,
    const std::function<bool(const std::string&)>& skip = [](const std::string&) {
      return false;
    }) {
  for (const TensorSpec& spec : expected_tensors(config)) {
    if (skip(spec.gguf_name)) continue;
    file.tensor(spec.gguf_name, GgufTensorType::kF32, spec.shape,
                gguf_tensor_bytes(config, spec, seed));
  }
}

inline std::string small_gguf(const ModelConfig& config, std::uint64_t seed) {
  GgufBuilder file = gguf_keys(config);
  add_gguf_tensors(file, config, seed);
  return file.build();
}

}  // namespace outrider
