// Small models as GGUF files, with the weights that model_writer.h would give their directories.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/engine/model/format/model_files.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/format/stored_tensors.h"
#include "tests/unit/common/engine/gguf/gguf_builder.h"

namespace outrider {

// The keys of what only some families have.
inline void add_family_keys(GgufBuilder& file, const std::string& name, const ModelConfig& config) {
  const auto number = [&](const char* key, std::int64_t value) {
    file.u32(name + "." + key, static_cast<std::uint32_t>(value));
  };
  const auto real = [&](const char* key, double value) {
    file.f32(name + "." + key, static_cast<float>(value));
  };
  if (config.experts.count > 0) {
    number("expert_count", config.experts.count);
    number("expert_used_count", config.experts.used);
    number("expert_feed_forward_length", config.experts.inner_size);
  }
  if (config.windows.front() > 0) number("attention.sliding_window", config.windows.front());
  if (config.kinds.sandwich_norms) {
    number("attention.sliding_window_pattern", 2);
    real("rope.freq_base_swa", config.local_rope.theta);
    if (config.attention_cap > 0) real("attn_logit_softcapping", config.attention_cap);
    if (config.logit_cap > 0) real("final_logit_softcapping", config.logit_cap);
  } else if (config.architecture == "granite") {
    real("embedding_scale", config.embedding_scale);
    real("residual_scale", config.residual_scale);
    real("attention.scale", config.attention_scale);
    real("logit_scale", config.logit_divisor);
  }
}

// The keys of a model; a caller may leave one out or add others.
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
  number("rope.dimension_count", config.rotated());
  number("context_length", config.max_positions);
  const std::string epsilon = config.kinds.norm == NormKind::kLayer
                                  ? "attention.layer_norm_epsilon"
                                  : "attention.layer_norm_rms_epsilon";
  if (without != epsilon) file.f32(name + "." + epsilon, static_cast<float>(config.rms_norm_eps));
  add_family_keys(file, name, config);
  file.f32(name + ".rope.freq_base", static_cast<float>(config.rope.theta));
  return file;
}

// A tensor's values as f32; rows of queries and keys of some families in GGUF's order: pairs beside
// each other.
inline std::string gguf_tensor_bytes(const ModelConfig& config, const TensorSpec& spec,
                                     const std::vector<float>& values) {
  if (!spec.rotated || !family_of(config).gguf_interleaves) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  const auto columns = values.size() / static_cast<std::size_t>(spec.shape[0]);
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

// The values that random_tensor() gives a model's tensor.
inline std::vector<float> random_values_of(const TensorSpec& spec, std::uint64_t seed) {
  std::int64_t size = 1;
  for (const std::int64_t length : spec.shape) size *= length;
  std::vector<float> values(static_cast<std::size_t>(size));
  random_tensor(seed, spec, 0, values);
  return values;
}

// All tensors except those whose GGUF name `skip` accepts.
inline void add_gguf_tensors(
    GgufBuilder& file, const ModelConfig& config, std::uint64_t seed,
    const std::function<bool(const std::string&)>& skip = [](const std::string&) {
      return false;
    }) {
  for (const StoredTensor& stored : stored_tensors(config, FileKind::kGguf)) {
    if (skip(stored.name)) continue;
    std::string bytes;
    for (const TensorSpec& part : stored.parts)
      bytes += gguf_tensor_bytes(config, part, random_values_of(part, seed));
    file.tensor(stored.name, GgufTensorType::kF32, stored.shape, bytes);
  }
}

inline std::string small_gguf(const ModelConfig& config, std::uint64_t seed) {
  GgufBuilder file = gguf_keys(config);
  add_gguf_tensors(file, config, seed);
  return file.build();
}

// The same model as the loaded one.
inline std::string gguf_of(const ModelFiles& files) {
  GgufBuilder file = gguf_keys(files.config);
  for (const StoredTensor& stored : stored_tensors(files.config, FileKind::kGguf)) {
    std::string bytes;
    for (const TensorSpec& part : stored.parts) {
      bytes += gguf_tensor_bytes(files.config, part, widened(files.weights.at(part.name)));
    }
    file.tensor(stored.name, GgufTensorType::kF32, stored.shape, bytes);
  }
  return file.build();
}

}  // namespace outrider
