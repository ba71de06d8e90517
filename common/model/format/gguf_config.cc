// SPDX-License-Identifier: Apache-2.0
#include "common/model/format/gguf_config.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "common/model/format/architecture.h"
#include "common/model/format/config_fields.h"

namespace outrider {
namespace {

constexpr std::int64_t kControlToken = 3;  // of tokenizer.ggml.token_type
constexpr std::array<std::string_view, 5> kEndTexts = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>",
                                                       "<|endoftext|>", "<|end_of_text|>"};

// The keys with single values, for FieldReader; a list becomes an empty one.
Json single_values(const GgufMetadata& metadata) {
  Json object = Json::object();
  for (const auto& [name, value] : metadata.values()) {
    Json& field = object[std::string(name)];
    if (value.is_array) {
      field = Json::array();
    } else if (value.type == GgufValueType::kString) {
      field = std::string(*metadata.text(name));
    } else if (value.type == GgufValueType::kBool) {
      field = *metadata.flag(name);
    } else if (value.type == GgufValueType::kFloat32 || value.type == GgufValueType::kFloat64) {
      field = *metadata.real(name);
    } else {
      const Result<std::int64_t> number = metadata.integer(name);
      field = number.ok() ? *number : INT64_MAX;  // exceeds every bound as well
    }
  }
  return object;
}

class GgufConfigReader final {
 public:
  GgufConfigReader(const GgufHeader& file, const Json& values)
      : file_(file), fields_(values, file.metadata.what()) {}

  Result<ModelConfig> read();

 private:
  std::string key(const char* name) const { return prefix_ + name; }
  std::int32_t count(const char* name, std::int64_t high, std::optional<std::int64_t> absent = {}) {
    return static_cast<std::int32_t>(fields_.integer(key(name).c_str(), 1, high, absent));
  }
  const GgufTensor* find_tensor(std::string_view name) const;
  bool has_bias(const char* part) const {
    return find_tensor(std::string("blk.0.") + part + ".bias") != nullptr;
  }
  Status refuse(const std::string& feature) const {
    return unimplemented(fields_.what() + ": " + feature + " is not supported");
  }

  Status read_family();
  Status read_vocabulary();
  Status read_shape();
  Status read_head_dim();
  Status read_rope();
  Status read_rope_factors(const GgufTensor& factors);
  void read_window();
  Status read_stop_ids();
  Status find_end_tokens();
  void add_stop_id(std::int64_t id);

  const GgufHeader& file_;
  FieldReader fields_;
  std::string prefix_;  // "llama."
  ModelConfig config_;
};

const GgufTensor* GgufConfigReader::find_tensor(std::string_view name) const {
  for (const GgufTensor& tensor : file_.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

Status GgufConfigReader::read_family() {
  const std::string name = fields_.text("general.architecture");
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  const ModelFamily* family = find_gguf_family(name);
  if (family == nullptr) {
    std::string names;
    for (const ModelFamily& known : model_families()) {
      if (find_gguf_family(known.gguf_name) != &known) continue;
      names += std::string(names.empty() ? "" : ", ") + known.gguf_name;
    }
    return unimplemented(fields_.what() + ": general.architecture " + printable(name) +
                         " is not supported; supported are " + names);
  }
  prefix_ = name + ".";
  config_.architecture = family->name;
  config_.qkv_bias = family->qkv_bias || has_bias("attn_q");
  config_.o_bias = has_bias("attn_output");
  config_.mlp_bias = has_bias("ffn_gate");
  config_.qk_norm = family->qk_norm;
  config_.tied_embeddings = find_tensor("output.weight") == nullptr;
  if (fields_.integer(key("expert_count").c_str(), 0, INT64_MAX, 0) > 0) {
    return refuse(key("expert_count") + " (a mixture of experts)");
  }
  return fields_.status();
}

// The embedding gives the number of tokens; many files are older than the key for it.
Status GgufConfigReader::read_vocabulary() {
  const GgufTensor* embedding = find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return data_loss(fields_.what() + ": no matrix token_embd.weight");
  }
  const std::int64_t rows = embedding->shape[0];
  if (rows > kMaxVocab) {
    return invalid_argument(fields_.what() + ": token_embd.weight has " + std::to_string(rows) +
                            " rows, at most " + std::to_string(kMaxVocab) + " are read");
  }
  config_.vocab_size = static_cast<std::int32_t>(rows);
  return {};
}

Status GgufConfigReader::read_shape() {
  config_.num_layers = count("block_count", kMaxLayers);
  config_.hidden_size = count("embedding_length", kMaxHidden);
  config_.intermediate_size = count("feed_forward_length", kMaxIntermediate);
  config_.num_heads = count("attention.head_count", kMaxHeads);
  config_.num_kv_heads = count("attention.head_count_kv", kMaxHeads, config_.num_heads);
  config_.max_positions = fields_.integer(key("context_length").c_str(), 1, kMaxPositions);
  config_.rms_norm_eps = fields_.real(key("attention.layer_norm_rms_epsilon").c_str(), 1e-12, 0.1);
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  if (config_.num_heads % config_.num_kv_heads != 0) {
    return invalid_argument(fields_.what() + ": " + key("attention.head_count_kv") + " (" +
                            std::to_string(config_.num_kv_heads) + ") must divide " +
                            key("attention.head_count") + " (" + std::to_string(config_.num_heads) +
                            ")");
  }
  return read_head_dim();
}

Status GgufConfigReader::read_head_dim() {
  const std::string name = key("attention.key_length");
  if (!fields_.has(name.c_str()) && config_.hidden_size % config_.num_heads != 0) {
    return invalid_argument(fields_.what() + ": " + key("embedding_length") + " (" +
                            std::to_string(config_.hidden_size) + ") must be a multiple of " +
                            key("attention.head_count") + " (" + std::to_string(config_.num_heads) +
                            ") where " + name + " is missing");
  }
  config_.head_dim =
      count("attention.key_length", kMaxHeadDim, config_.hidden_size / config_.num_heads);
  const std::int32_t value_length = count("attention.value_length", kMaxHeadDim, config_.head_dim);
  const std::int32_t rotated = count("rope.dimension_count", kMaxHeadDim, config_.head_dim);
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  if (config_.head_dim < 2 || config_.head_dim > kMaxHeadDim || config_.head_dim % 2 != 0) {
    return invalid_argument(fields_.what() + ": heads of " + std::to_string(config_.head_dim) +
                            " elements, must be even and from 2 to " + std::to_string(kMaxHeadDim));
  }
  if (value_length != config_.head_dim) {
    return refuse(key("attention.value_length") + " (" + std::to_string(value_length) +
                  ") differs from that of the keys (" + std::to_string(config_.head_dim) + ")");
  }
  if (rotated != config_.head_dim) {
    return refuse(key("rope.dimension_count") + " (" + std::to_string(rotated) +
                  ") differs from the size of the heads (" + std::to_string(config_.head_dim) +
                  ")");
  }
  return {};
}

Status GgufConfigReader::read_rope() {
  RopeConfig& rope = config_.rope;
  rope.theta = fields_.real(key("rope.freq_base").c_str(), 1.0, 1e12, rope.theta);
  // Older files have this key instead of the next two.
  const double scale = fields_.real(key("rope.scale_linear").c_str(), 1.0, 1e6, 1.0);
  const std::string silent = scale == 1.0 ? "none" : "linear";
  const std::string type = fields_.text(key("rope.scaling.type").c_str(), silent);
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = fields_.real(key("rope.scaling.factor").c_str(), 1.0, 1e6, scale);
  } else if (type != "none") {
    return unimplemented(fields_.what() + ": " + key("rope.scaling.type") + " " + printable(type) +
                         " is not supported; supported are none, linear and a tensor " +
                         std::string(kGgufRopeFactors));
  }
  const GgufTensor* factors = find_tensor(kGgufRopeFactors);
  return factors == nullptr ? fields_.status() : read_rope_factors(*factors);
}

Status GgufConfigReader::read_rope_factors(const GgufTensor& factors) {
  const std::string what = fields_.what() + ": tensor " + std::string(kGgufRopeFactors);
  const std::int64_t pairs = config_.head_dim / 2;
  if (factors.type != GgufTensorType::kF32 || factors.shape != std::vector<std::int64_t>{pairs}) {
    return data_loss(what + " must be of type F32 and hold " + std::to_string(pairs) + " factors");
  }
  RopeConfig& rope = config_.rope;
  if (rope.scaling != RopeScaling::kNone) {
    return refuse("a tensor " + std::string(kGgufRopeFactors) + " together with linear scaling");
  }
  rope.scaling = RopeScaling::kFactors;
  rope.factors.resize(static_cast<std::size_t>(pairs));
  std::memcpy(rope.factors.data(), factors.data.data(), factors.data.size());
  for (const float factor : rope.factors) {
    if (factor >= 1e-6f && factor <= 1e6f) continue;
    return data_loss(what + " holds the factor " + std::to_string(factor) +
                     ", must be from 1e-6 to 1e6");
  }
  return {};
}

// A window that is longer than any text counts as none. Files of Mistral models have architecture
// llama.
void GgufConfigReader::read_window() {
  const std::string name = key("attention.sliding_window");
  Position window = fields_.integer(name.c_str(), 0, INT64_MAX, 0);
  if (window >= config_.max_positions) window = 0;
  config_.windows.assign(static_cast<std::size_t>(config_.num_layers), window);
  if (window > 0 && config_.architecture == "llama") config_.architecture = "mistral";
}

void GgufConfigReader::add_stop_id(std::int64_t id) {
  std::vector<TokenId>& ids = config_.stop_ids;
  const auto token = static_cast<TokenId>(id);
  const bool known = std::find(ids.begin(), ids.end(), token) != ids.end();
  if (!known && std::cmp_less(ids.size(), kMaxStopIds)) ids.push_back(token);
}

Status GgufConfigReader::read_stop_ids() {
  for (const char* end : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (fields_.has(end)) add_stop_id(fields_.integer(end, 0, config_.vocab_size - 1));
  }
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  return find_end_tokens();
}

// A chat model may end its turn with a token that no key names.
Status GgufConfigReader::find_end_tokens() {
  const GgufMetadata& metadata = file_.metadata;
  if (!metadata.has("tokenizer.ggml.token_type") || !metadata.has("tokenizer.ggml.tokens")) {
    return {};
  }
  OUTRIDER_ASSIGN_OR_RETURN(const auto kinds, metadata.integers("tokenizer.ggml.token_type"));
  OUTRIDER_ASSIGN_OR_RETURN(const auto tokens, metadata.texts("tokenizer.ggml.tokens"));
  const auto vocab = static_cast<std::size_t>(config_.vocab_size);
  const std::size_t count = std::min({kinds.size(), tokens.size(), vocab});
  for (std::size_t i = 0; i < count; ++i) {
    const bool ends = kinds[i] == kControlToken &&
                      std::find(kEndTexts.begin(), kEndTexts.end(), tokens[i]) != kEndTexts.end();
    if (ends) add_stop_id(static_cast<std::int64_t>(i));
  }
  return {};
}

Result<ModelConfig> GgufConfigReader::read() {
  OUTRIDER_RETURN_IF_ERROR(read_family());
  OUTRIDER_RETURN_IF_ERROR(read_vocabulary());
  OUTRIDER_RETURN_IF_ERROR(read_shape());
  OUTRIDER_RETURN_IF_ERROR(read_rope());
  read_window();
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  OUTRIDER_RETURN_IF_ERROR(read_stop_ids());
  return std::move(config_);
}

}  // namespace

Result<ModelConfig> gguf_config(const GgufHeader& file) {
  const Json values = single_values(file.metadata);
  return GgufConfigReader(file, values).read();
}

}  // namespace outrider
