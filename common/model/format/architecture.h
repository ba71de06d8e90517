// The supported architectures: one table of families and one of tensors, from which all code that
// reads, computes or writes a model takes names and shapes.
//
//   weight_name(ModelPart::kQuery, 3);  // "model.layers.3.self_attn.q_proj.weight"
//
// Thread rule: constants; free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/model/format/config.h"

namespace outrider {

// A family's features, and the defaults of transformers where config.json is silent.
struct ModelFamily {
  const char* name;          // model_type of config.json
  const char* causal_class;  // its entry in `architectures`
  const char* gguf_name;     // general.architecture of a GGUF file
  std::int64_t max_positions;
  std::optional<std::int64_t> num_kv_heads;  // nothing: num_heads
  std::optional<std::int64_t> head_dim;      // nothing: hidden_size / num_heads
  bool qkv_bias = false;                     // always has it
  bool qk_norm = false;
  bool may_have_attention_bias =
      false;  // reads attention_bias of config.json; the next one mlp_bias
  bool may_have_mlp_bias = false;
  bool layers_choose_window = false;  // by use_sliding_window, max_window_layers and layer_types
  // A GGUF file holds query and key rows interleaved (TensorView).
  bool gguf_interleaves = false;
};

std::span<const ModelFamily> model_families();
// nullptr for an unknown name.
const ModelFamily* find_family(std::string_view name);
// The first family with that name in GGUF files.
const ModelFamily* find_gguf_family(std::string_view gguf_name);

// The matrices of a layer, in the order in which a pass uses them.
inline constexpr ModelPart kLayerMatrices[] = {
    ModelPart::kQuery, ModelPart::kKey, ModelPart::kValue, ModelPart::kAttentionOutput,
    ModelPart::kGate,  ModelPart::kUp,  ModelPart::kDown};

// The name of a layer's part begins with "model.layers.N."; `layer` is ignored for other parts.
std::string weight_name(ModelPart part, std::int32_t layer = 0);
std::string bias_name(ModelPart part, std::int32_t layer = 0);

// The matrix that makes logits: kHead, or the embedding that is tied to it.
inline ModelPart output_part(const ModelConfig& config) {
  return config.tied_embeddings ? ModelPart::kEmbedding : ModelPart::kHead;
}

}  // namespace outrider
