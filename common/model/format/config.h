// The checked content of a model's config.json: shapes, biases, rotary embedding, attention
// windows.
//
// Families: llama (also Vicuna, TinyLlama), mistral, qwen2 (also 2.5) and qwen3, with the defaults
// and meanings of Hugging Face transformers. An unsupported feature is refused by name, never
// ignored. Every number is bounded, so that a shape product fits std::int64_t.
//
// Thread rule: values. Errors: kInvalidArgument names the field, its value and the limit;
// kUnimplemented names the feature; kDataLoss for a file that is not JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

// Bounds of a config's numbers: far above any published model, and small enough that no product of
// two exceeds 2^62.
inline constexpr std::int64_t kMaxHidden = 1 << 17;
inline constexpr std::int64_t kMaxIntermediate = 1 << 20;
inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxHeads = 1024;
inline constexpr std::int64_t kMaxHeadDim = 1024;
inline constexpr std::int64_t kMaxVocab = 1 << 22;
inline constexpr std::int64_t kMaxPositions = 1 << 24;
inline constexpr std::int64_t kMaxStopIds = 64;

// How rotary angles change for positions beyond the training length.
enum class RopeScaling {
  kNone,
  kLinear,   // frequencies divided by `factor`
  kLlama3,   // low frequencies divided by `factor`, high ones kept, a smooth change between
  kDynamic,  // unchanged up to the original length; longer texts are refused (max_positions)
  kFactors,  // each frequency divided by a factor of its own
};

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  // Only kLlama3 reads these.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  Position original_max_positions = 0;
  std::vector<float> factors = {};  // kFactors: [head_dim / 2], above 0
};

// Projections are [out, in] row-major, as in the files; "q" = num_heads * head_dim.
struct ModelConfig {
  std::string architecture;  // "llama", "mistral", "qwen2", "qwen3"
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t num_layers = 0;
  std::int32_t num_heads = 0;
  std::int32_t num_kv_heads = 0;  // divides num_heads
  std::int32_t head_dim = 0;      // even
  Position max_positions = 0;
  double rms_norm_eps = 1e-6;
  bool tied_embeddings = false;  // the output matrix is the embedding matrix
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMS norm of each query and key head before the rotation
  RopeConfig rope;
  // Per layer: a row at position p sees positions > p - window; 0: all positions.
  std::vector<Position> windows;
  std::vector<TokenId> stop_ids;  // end-of-text tokens; decoding stops after one
  // The only tokens that get logits, rising; empty: all. It is a draft's shortlist: its output
  // matrix is these rows of the one in the files, and the logits of all other tokens are -infinity.
  std::vector<TokenId> head_tokens = {};

  std::int64_t q_size() const { return std::int64_t{num_heads} * head_dim; }
  std::int64_t kv_size() const { return std::int64_t{num_kv_heads} * head_dim; }
  // Rows of the output matrix that are computed.
  std::int64_t head_size() const {
    return head_tokens.empty() ? vocab_size : static_cast<std::int64_t>(head_tokens.size());
  }
};

// The tensors of a model (architecture.h); a bias belongs to its part.
enum class ModelPart : std::uint8_t {
  kEmbedding,
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kQueryNorm,
  kKeyNorm,
  kAttentionOutput,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kFinalNorm,
  kHead,
};

// A tensor that the files of a model with some config have.
struct TensorSpec {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::string gguf_name = {};  // "blk.0.attn_q.weight"
  ModelPart part = ModelPart::kEmbedding;
  bool rotated = false;  // rows of queries or keys, which the rotation changes in pairs
};

// Reads `directory`/config.json, and generation_config.json if it exists (its end tokens have
// priority).
Result<ModelConfig> load_config_json(const std::string& directory);

// `what` names the text in errors.
Result<ModelConfig> parse_config(std::string_view text, const std::string& what);

// The eos_token_id (a number, a list, or none) of a generation_config.json's text.
Result<std::vector<TokenId>> parse_stop_ids(std::string_view text, const std::string& what,
                                            std::int32_t vocab_size);

// A config.json that parse_config() and transformers read back as `config`; `dtype` is that of the
// weights: "float32", "float16" or "bfloat16".
Json config_to_json(const ModelConfig& config, const std::string& dtype);

// All tensors of such a model, embedding first, in the order of a forward pass. lm_head.weight is
// left out where embeddings are tied.
std::vector<TensorSpec> expected_tensors(const ModelConfig& config);

// The sum of all tensors' elements.
std::int64_t num_parameters(const ModelConfig& config);

// The angle per position of each of a head's head_dim / 2 rotated pairs, pair (i, i + head_dim/2)
// for index i. Computed without the C library's pow, so that every machine gets the same bits.
std::vector<float> rope_frequencies(const RopeConfig& rope, std::int32_t head_dim);

// The published shape of a model: "tinyllama-1.1b", "llama2-7b", ...; kNotFound lists the names.
Result<ModelConfig> known_shape(std::string_view name);
std::vector<std::string> known_shape_names();

}  // namespace outrider
