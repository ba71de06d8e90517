// The supported architectures: one table of families and one of tensors, from which all code that
// reads, computes or writes a model takes names and shapes.
//
//   weight_name(ModelPart::kQuery, 3);  // "model.layers.3.self_attn.q_proj.weight"
//
// A part has one name, shape and order of rows in the whole program, whatever its file calls it and
// however it lies there (stored_tensors.h).
//
// Thread rule: constants; free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/engine/model/format/config.h"

namespace outrider {

// The tensors of a model; a bias belongs to its part.
enum class ModelPart : std::uint8_t {
  kEmbedding,
  kPositions,
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kQueryNorm,
  kKeyNorm,
  kAttentionOutput,
  kAttentionOutputNorm,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kMlpOutputNorm,
  kFinalNorm,
  kHead,
};

// Where a family's files differ from the table of parts (architecture.cc): the name of a part in a
// directory and in a GGUF file, without "model.layers.N." or "blk.N.".
struct StoredRule {
  // Several parts are one tensor, their rows one after the other.
  std::span<const ModelPart> parts;
  const char* name;
  const char* gguf_name;
  bool transposed = false;  // in a directory: [inputs, outputs]
};

// The names in config.json of the fields that every family has.
struct ConfigNames {
  const char* hidden = "hidden_size";
  const char* inner = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* positions = "max_position_embeddings";
  const char* activation = "hidden_act";
  const char* epsilon = "rms_norm_eps";
};

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
  BlockKinds kinds = {};
  double epsilon = 1e-6;
  double theta = 10000.0;
  bool all_biases = false;  // every projection of every layer has one
  bool tied_embeddings = false;
  bool has_experts = false;
  // A directory's norm weights are the model's less this; those of GGUF files are the model's.
  float norm_offset = 0.0f;
  ConfigNames names = {};
  const char* body = "model.";  // in a directory: before names other than the output matrix's
  bool body_is_optional = false;
  const char* layers = "layers.";
  std::span<const StoredRule> stored = {};
};

std::span<const ModelFamily> model_families();
// nullptr for an unknown name.
const ModelFamily* find_family(std::string_view name);
// The first family with that name in GGUF files.
const ModelFamily* find_gguf_family(std::string_view gguf_name);
// The family of a checked config.
const ModelFamily& family_of(const ModelConfig& config);

// A tensor of a model.
struct TensorSpec {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  ModelPart part = ModelPart::kEmbedding;
  std::int32_t layer = 0;   // of a layer's parts
  std::int32_t expert = 0;  // of an expert's parts
  bool rotated = false;     // rows of queries or keys, which the rotation changes in pairs
  bool is_bias = false;
};

// All tensors of such a model, embedding first, in the order of a forward pass. The output matrix
// is left out where embeddings are tied.
std::vector<TensorSpec> expected_tensors(const ModelConfig& config);

// A matrix of a layer.
struct LayerMatrix {
  ModelPart part;
  std::int32_t expert = 0;  // of the experts' parts
};

// A layer's matrices, in the order in which a pass uses them; those of an expert lie together.
std::vector<LayerMatrix> layer_matrices(const ModelConfig& config);

// The name of a layer's part begins with "model.layers.N."; `layer` is ignored for other parts, and
// `expert` for parts that are not an expert's.
std::string weight_name(ModelPart part, std::int32_t layer = 0, std::int32_t expert = 0);
std::string bias_name(ModelPart part, std::int32_t layer = 0);

// A part's name in files, without the layer: "self_attn.q_proj", or "attn_q" in a GGUF file.
std::string stored_stem(ModelPart part, bool in_gguf);
bool is_in_layer(ModelPart part);
inline bool is_of_expert(ModelPart part) {
  return part == ModelPart::kExpertGate || part == ModelPart::kExpertUp ||
         part == ModelPart::kExpertDown;
}

// The matrix that makes logits: kHead, or the embedding that is tied to it.
inline ModelPart output_part(const ModelConfig& config) {
  return config.tied_embeddings ? ModelPart::kEmbedding : ModelPart::kHead;
}

}  // namespace outrider
