// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "common/engine/model/format/config_readers.h"

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
  void read_yarn();
  Status read_longrope();
  Status read_factors(const GgufTensor& factors, const std::string& name);
  Status read_experts();
  void read_scales();
  void read_layers();
  Status read_stop_ids();
  Status find_end_tokens();
  void add_stop_id(std::int64_t id);

  const GgufHeader& file_;
  FieldReader fields_;
  std::string prefix_;  // "llama."
  const ModelFamily* family_ = nullptr;
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
  family_ = find_gguf_family(name);
  if (family_ == nullptr) {
    std::string names;
    for (const ModelFamily& known : model_families()) {
      if (find_gguf_family(known.gguf_name) != &known) continue;
      names += std::string(names.empty() ? "" : ", ") + known.gguf_name;
    }
    return unimplemented(fields_.what() + ": general.architecture " + printable(name) +
                         " is not supported; supported are " + names);
  }
  prefix_ = name + ".";
  // Files of Mixtral models have architecture llama, too.
  const bool has_experts = fields_.integer(key("expert_count").c_str(), 0, INT64_MAX, 0) > 0;
  if (has_experts && name == "llama") family_ = find_family("mixtral");
  if (has_experts && !family_->has_experts) {
    return refuse(key("expert_count") + " (a mixture of experts)");
  }
  config_.architecture = family_->name;
  config_.kinds = family_->kinds;
  config_.qkv_bias = family_->qkv_bias || has_bias("attn_q");
  config_.o_bias = family_->all_biases || has_bias("attn_output");
  config_.mlp_bias = family_->all_biases || has_bias("ffn_gate");
  config_.qk_norm = family_->qk_norm;
  config_.tied_embeddings = find_tensor("output.weight") == nullptr;
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
  std::optional<std::int64_t> inner;
  const std::string of_experts = key("expert_feed_forward_length");
  if (family_->has_experts && fields_.has(of_experts.c_str())) {
    inner = fields_.integer(of_experts.c_str(), 1, kMaxIntermediate);
  }
  config_.intermediate_size = count("feed_forward_length", kMaxIntermediate, inner);
  config_.num_heads = count("attention.head_count", kMaxHeads);
  config_.num_kv_heads = count("attention.head_count_kv", kMaxHeads, config_.num_heads);
  config_.max_positions = fields_.integer(key("context_length").c_str(), 1, kMaxPositions);
  const char* epsilon = config_.kinds.norm == NormKind::kLayer ? "attention.layer_norm_epsilon"
                                                               : "attention.layer_norm_rms_epsilon";
  config_.rms_norm_eps = fields_.real(key(epsilon).c_str(), 1e-12, 0.1);
  if (config_.kinds.learned_positions) {
    config_.position_rows = static_cast<std::int32_t>(config_.max_positions);
  }
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
  if (config_.architecture == "phi3" && rotated < config_.head_dim && rotated % 2 == 0) {
    config_.rotated_dim = rotated;
  } else if (rotated != config_.head_dim) {
    return refuse(key("rope.dimension_count") + " (" + std::to_string(rotated) +
                  ") differs from the size of the heads (" + std::to_string(config_.head_dim) +
                  ")");
  }
  return {};
}

Status GgufConfigReader::read_rope() {
  RopeConfig& rope = config_.rope;
  if (config_.kinds.learned_positions) return {};
  const bool is_gemma = config_.architecture == "gemma3_text";
  rope.theta =
      fields_.real(key("rope.freq_base").c_str(), 1.0, 1e12, is_gemma ? family_->theta : 10000.0);
  if (is_gemma) {
    config_.local_rope.theta =
        fields_.real(key("rope.freq_base_swa").c_str(), 1.0, 1e12, config_.local_rope.theta);
  }
  // Older files have this key instead of the next two.
  const double scale = fields_.real(key("rope.scale_linear").c_str(), 1.0, 1e6, 1.0);
  const std::string silent = scale == 1.0 ? "none" : "linear";
  const std::string type = fields_.text(key("rope.scaling.type").c_str(), silent);
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = fields_.real(key("rope.scaling.factor").c_str(), 1.0, 1e6, scale);
  } else if (type == "yarn") {
    read_yarn();
  } else if (type != "none" && (type != "longrope" || config_.architecture != "phi3")) {
    return unimplemented(fields_.what() + ": " + key("rope.scaling.type") + " " + printable(type) +
                         " is not supported; supported are none, linear, yarn and a tensor " +
                         std::string(kGgufRopeFactors));
  }
  if (config_.architecture == "phi3") return read_longrope();
  const GgufTensor* factors = find_tensor(kGgufRopeFactors);
  return factors == nullptr ? fields_.status() : read_rope_factors(*factors);
}

void GgufConfigReader::read_yarn() {
  RopeConfig& rope = config_.rope;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = fields_.real(key("rope.scaling.factor").c_str(), 1.0, 1e6);
  rope.original_max_positions = fields_.integer(key("rope.scaling.original_context_length").c_str(),
                                                1, kMaxPositions, config_.max_positions);
  rope.attention_factor = yarn_attention_factor(rope.factor) *
                          fields_.real(key("rope.scaling.attn_factor").c_str(), 1e-3, 1e3, 1.0);
  rope.beta_fast = fields_.real(key("rope.scaling.yarn_beta_fast").c_str(), 1e-3, 1e6, 32.0);
  rope.beta_slow = fields_.real(key("rope.scaling.yarn_beta_slow").c_str(), 1e-3, 1e6, 1.0);
  for (const char* name : {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor",
                           "rope.scaling.yarn_log_multiplier"}) {
    if (fields_.has(key(name).c_str())) fields_.fail(refuse(key(name)));
  }
}

// The factors for texts of at most the original length; they bound the model (config_rope.cc).
Status GgufConfigReader::read_longrope() {
  const GgufTensor* factors = find_tensor(kGgufShortFactors);
  if (factors == nullptr) return fields_.status();
  OUTRIDER_RETURN_IF_ERROR(read_factors(*factors, std::string(kGgufShortFactors)));
  RopeConfig& rope = config_.rope;
  rope.original_max_positions = fields_.integer(key("rope.scaling.original_context_length").c_str(),
                                                1, kMaxPositions, config_.max_positions);
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  const double ratio =
      static_cast<double>(config_.max_positions) / static_cast<double>(rope.original_max_positions);
  rope.attention_factor =
      fields_.real(key("rope.scaling.attn_factor").c_str(), 1e-3, 1e3,
                   longrope_attention_factor(ratio, rope.original_max_positions));
  config_.max_positions = std::min(config_.max_positions, rope.original_max_positions);
  return fields_.status();
}

Status GgufConfigReader::read_rope_factors(const GgufTensor& factors) {
  if (config_.rope.scaling != RopeScaling::kNone) {
    return refuse("a tensor " + std::string(kGgufRopeFactors) + " together with " +
                  key("rope.scaling.type"));
  }
  return read_factors(factors, std::string(kGgufRopeFactors));
}

Status GgufConfigReader::read_factors(const GgufTensor& factors, const std::string& name) {
  const std::string what = fields_.what() + ": tensor " + name;
  const std::int64_t pairs = config_.rotated() / 2;
  if (factors.type != GgufTensorType::kF32 || factors.shape != std::vector<std::int64_t>{pairs}) {
    return data_loss(what + " must be of type F32 and hold " + std::to_string(pairs) + " factors");
  }
  RopeConfig& rope = config_.rope;
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

Status GgufConfigReader::read_experts() {
  if (!family_->has_experts) return {};
  ExpertConfig& experts = config_.experts;
  experts.count = count("expert_count", kMaxExperts);
  experts.used = count("expert_used_count", kMaxExperts);
  experts.inner_size =
      count("expert_feed_forward_length", kMaxIntermediate, config_.intermediate_size);
  experts.normalized = fields_.flag(key("expert_weights_norm").c_str(), true);
  const std::string function = key("expert_gating_func");
  constexpr std::int64_t kSoftmax = 1;
  if (fields_.integer(function.c_str(), 0, INT64_MAX, kSoftmax) > kSoftmax) {
    fields_.fail(refuse(function + " other than softmax"));
  }
  for (const char* name : {"expert_shared_count", "expert_group_count"}) {
    if (fields_.integer(key(name).c_str(), 0, INT64_MAX, 0) > 0) fields_.fail(refuse(key(name)));
  }
  OUTRIDER_RETURN_IF_ERROR(fields_.status());
  return check_experts(config_, fields_.what() + ": " + key("expert_used_count"));
}

void GgufConfigReader::read_scales() {
  const double of_head = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  if (is_gemma(config_)) {
    config_.embedding_scale = std::sqrt(static_cast<double>(config_.hidden_size));
    config_.attention_scale = of_head;
    // The largest models, alone with so many layers, have another scale, for which there is no key.
    const std::int32_t largest = config_.architecture == "gemma2" ? 46 : 62;
    if (config_.num_layers == largest && config_.hidden_size % config_.num_heads == 0) {
      config_.attention_scale = 1.0 / std::sqrt(config_.hidden_size / config_.num_heads);
    }
    const std::string cap = key("attn_logit_softcapping");
    config_.attention_cap = fields_.real(cap.c_str(), 1e-3, 1e6, 0.0);
    if (config_.attention_cap > 0 && config_.architecture != "gemma2") fields_.fail(refuse(cap));
    config_.logit_cap = fields_.real(key("final_logit_softcapping").c_str(), 1e-3, 1e6, 0.0);
  } else if (config_.architecture == "granite") {
    config_.embedding_scale = fields_.real(key("embedding_scale").c_str(), 1e-6, 1e6, 1.0);
    config_.residual_scale = fields_.real(key("residual_scale").c_str(), 1e-6, 1e6, 1.0);
    config_.attention_scale = fields_.real(key("attention.scale").c_str(), 1e-6, 1e6, of_head);
    config_.logit_divisor = fields_.real(key("logit_scale").c_str(), 1e-6, 1e6, 1.0);
    const std::string rotates = key("rope.scaling.finetuned");
    if (!fields_.flag(rotates.c_str(), true)) fields_.fail(refuse(rotates + " false"));
  }
}

// Windows and rotations of the layers. A window that is longer than any text counts as none. Files
// of Mistral models have architecture llama.
void GgufConfigReader::read_layers() {
  const std::string name = key("attention.sliding_window");
  Position window = fields_.integer(name.c_str(), 0, INT64_MAX, 0);
  if (window >= config_.max_positions) window = 0;
  config_.windows.assign(static_cast<std::size_t>(config_.num_layers), window);
  if (window > 0 && config_.architecture == "llama") config_.architecture = "mistral";
  if (is_gemma(config_)) {
    const std::string pattern = key("attention.sliding_window_pattern");
    const std::int64_t period = gemma_period(config_);
    set_gemma_layers(window, fields_.integer(pattern.c_str(), 1, kMaxLayers, period), config_);
  } else if (config_.architecture == "smollm3") {
    set_smollm3_layers(4, config_);
  }
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
  OUTRIDER_RETURN_IF_ERROR(read_experts());
  OUTRIDER_RETURN_IF_ERROR(read_rope());
  read_scales();
  read_layers();
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
