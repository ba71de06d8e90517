// The checked content of a model's config.json or of a GGUF file's keys: shapes, kinds of blocks,
// biases, rotary embedding, attention windows, experts.
//
// The families are those of architecture.h, with the defaults and meanings of Hugging Face
// transformers. An unsupported feature is refused by name, never ignored. Every number is bounded,
// so that a shape product fits std::int64_t.
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
#include "common/engine/model/format/quantization.h"

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
inline constexpr std::int64_t kMaxExperts = 512;

enum class NormKind : std::uint8_t {
  kRms,    // x / sqrt(mean(x^2) + epsilon) * weight
  kLayer,  // (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias
};

enum class Activation : std::uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

// How the blocks of the families differ. The defaults are a llama's.
struct BlockKinds {
  NormKind norm = NormKind::kRms;
  bool sandwich_norms = false;  // the results of attention and MLP are normed before they are added
  Activation activation = Activation::kSilu;
  bool gated = true;               // MLP: down(f(gate(x)) * up(x)); else down(f(up(x)))
  bool learned_positions = false;  // a vector per position is added to the embedding; no rotation

  bool operator==(const BlockKinds&) const = default;
};

// How rotary angles change for positions beyond the training length.
enum class RopeScaling {
  kNone,
  kLinear,   // frequencies divided by `factor`
  kLlama3,   // low frequencies divided by `factor`, high ones kept, a smooth change between
  kDynamic,  // unchanged up to the original length; longer texts are refused (max_positions)
  kFactors,  // each frequency divided by a factor of its own
  kYarn,     // high frequencies kept, low ones divided by `factor`, a linear change between
};

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  // Only kLlama3 reads these.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  Position original_max_positions = 0;
  std::vector<float> factors = {};  // kFactors: [rotated / 2], above 0
  // kYarn: how often a pair turns within the original length, from where on it is kept, and up to
  // where it is divided.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;           // kYarn: the change begins and ends at whole pairs
  double attention_factor = 1.0;  // kFactors, kYarn: factor of cosine and sine

  bool operator==(const RopeConfig&) const = default;
};

// Which rotation a layer applies to queries and keys.
enum class LayerRope : std::uint8_t { kNone, kMain, kLocal };

// A mixture of experts in the place of each layer's MLP. A row goes to the `used` experts of the
// highest scores (ties: to the lower id), and their results are added in order of their ids.
struct ExpertConfig {
  std::int32_t count = 0;  // 0: the layers have a plain MLP
  std::int32_t used = 0;
  std::int32_t inner_size = 0;
  bool normalized = true;  // the used experts' shares are scaled to a sum of 1

  bool operator==(const ExpertConfig&) const = default;
};

// Projections are [out, in] row-major, as in the files; "q" = num_heads * head_dim.
struct ModelConfig {
  std::string architecture;  // a family's name (architecture.h)
  BlockKinds kinds;
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t num_layers = 0;
  std::int32_t num_heads = 0;
  std::int32_t num_kv_heads = 0;  // divides num_heads
  std::int32_t head_dim = 0;      // even
  std::int32_t rotated_dim = 0;   // elements of a head that are rotated, even; 0: all
  Position max_positions = 0;
  std::int32_t position_rows = 0;  // of learned positions: what max_positions may not exceed
  double rms_norm_eps = 1e-6;      // of every norm, whatever its kind
  bool tied_embeddings = false;    // the output matrix is the embedding matrix
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMS norm of each query and key head before the rotation
  double embedding_scale = 1.0;
  double residual_scale = 1.0;  // of what a block adds to the residual stream
  double logit_divisor = 1.0;
  double attention_scale = 0.0;  // of query * key; 0: 1 / sqrt(head_dim)
  // x becomes cap * tanh(x / cap); 0: no cap.
  double attention_cap = 0.0;
  double logit_cap = 0.0;
  ExpertConfig experts;
  RopeConfig rope;
  RopeConfig local_rope;               // of the layers that say so
  std::vector<LayerRope> layer_ropes;  // empty: kMain for all
  // Per layer: a row at position p sees positions > p - window; 0: all positions.
  std::vector<Position> windows;
  std::vector<TokenId> stop_ids;  // end-of-text tokens; decoding stops after one
  // The only tokens that get logits, rising; empty: all. It is a draft's shortlist: its output
  // matrix is these rows of the one in the files, and the logits of all other tokens are -infinity.
  std::vector<TokenId> head_tokens = {};
  // The quantisation of the directory's matrices; not part of the model, so config_to_json() leaves
  // it out.
  StoredQuantization quantization;

  std::int32_t rotated() const { return rotated_dim == 0 ? head_dim : rotated_dim; }
  LayerRope rope_of(std::int64_t layer) const {
    if (kinds.learned_positions) return LayerRope::kNone;
    return layer_ropes.empty() ? LayerRope::kMain : layer_ropes[static_cast<std::size_t>(layer)];
  }
  // The block's width: of one expert, where there are several.
  std::int32_t inner_size() const {
    return experts.count > 0 ? experts.inner_size : intermediate_size;
  }
  std::int64_t q_size() const { return std::int64_t{num_heads} * head_dim; }
  std::int64_t kv_size() const { return std::int64_t{num_kv_heads} * head_dim; }
  // Rows of the output matrix that are computed.
  std::int64_t head_size() const {
    return head_tokens.empty() ? vocab_size : static_cast<std::int64_t>(head_tokens.size());
  }
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

// The sum of all tensors' elements.
std::int64_t num_parameters(const ModelConfig& config);

// The angle per position of each of a head's rotated / 2 pairs, pair (i, i + rotated / 2) for index
// i. Computed without the C library's pow, so that every machine gets the same bits.
std::vector<float> rope_frequencies(const RopeConfig& rope, std::int32_t rotated);

// UNIMPLEMENTED unless the blocks are a llama's, with any biases, head norms and windows, and the
// kinds of rotation that llamas have. `what` computes only those: training, the torch backend.
Status check_llama_blocks(const ModelConfig& config, const std::string& what);

// UNIMPLEMENTED unless logits are the output matrix times an RMS norm, as exits compute them.
Status check_plain_head(const ModelConfig& config);

// The published shape of a model: "tinyllama-1.1b", "llama2-7b", ...; kNotFound lists the names.
Result<ModelConfig> known_shape(std::string_view name);
std::vector<std::string> known_shape_names();

}  // namespace outrider
