// Derived from a config: its JSON, its size.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/engine/model/format/config_readers.h"

namespace outrider {
namespace {

constexpr std::pair<Activation, const char*> kActivationNames[] = {
    {Activation::kSilu, "silu"},
    {Activation::kGelu, "gelu"},
    {Activation::kGeluTanh, "gelu_pytorch_tanh"},
    {Activation::kRelu, "relu"}};

const char* activation_name(Activation activation) {
  for (const auto& [known, name] : kActivationNames) {
    if (known == activation) return name;
  }
  return "";
}

void write_factors(const ModelConfig& config, Json& object) {
  object["rope_type"] = "longrope";
  object["short_factor"] = config.rope.factors;
  object["long_factor"] = config.rope.factors;
  object["attention_factor"] = config.rope.attention_factor;
  object["original_max_position_embeddings"] = config.max_positions;
}

void write_yarn(const RopeConfig& rope, Json& object) {
  object["rope_type"] = "yarn";
  object["attention_factor"] = rope.attention_factor;
  object["beta_fast"] = rope.beta_fast;
  object["beta_slow"] = rope.beta_slow;
  object["truncate"] = rope.truncate;
}

// rope_theta is also at the top level, for readers older than rope_parameters; they know the object
// as rope_scaling.
void write_rope(const ModelConfig& config, Json& json) {
  const RopeConfig& rope = config.rope;
  json["rope_theta"] = rope.theta;
  if (config.rotated_dim > 0) {
    json["partial_rotary_factor"] = static_cast<double>(config.rotated_dim) / config.head_dim;
  }
  if (rope.scaling == RopeScaling::kNone) return;
  Json object = {{"rope_theta", rope.theta}, {"factor", rope.factor}};
  if (rope.scaling == RopeScaling::kLinear) object["rope_type"] = "linear";
  if (rope.scaling == RopeScaling::kDynamic) object["rope_type"] = "dynamic";
  if (rope.scaling == RopeScaling::kLlama3) {
    object["rope_type"] = "llama3";
    object["low_freq_factor"] = rope.low_freq_factor;
    object["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.scaling == RopeScaling::kYarn) write_yarn(rope, object);
  if (rope.original_max_positions > 0) {
    object["original_max_position_embeddings"] = rope.original_max_positions;
  }
  if (rope.scaling == RopeScaling::kFactors) write_factors(config, object);
  json["rope_scaling"] = std::move(object);
}

Json layer_types(const ModelConfig& config) {
  Json types = Json::array();
  for (std::size_t layer = 0; layer < config.windows.size(); ++layer) {
    const bool is_local = config.rope_of(static_cast<std::int64_t>(layer)) == LayerRope::kLocal;
    const bool slides = is_local || config.windows[layer] > 0;
    types.push_back(slides ? "sliding_attention" : "full_attention");
  }
  return types;
}

void write_windows(const ModelConfig& config, Json& json) {
  const auto widest = std::max_element(config.windows.begin(), config.windows.end());
  const Position window = widest == config.windows.end() ? 0 : *widest;
  const std::string& name = config.architecture;
  if (name == "mistral" || name == "mixtral" || name == "phi3") {
    json["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  } else if (is_gemma(config)) {
    json["sliding_window"] = window > 0 ? window : config.max_positions;
    json["layer_types"] = layer_types(config);
  } else if (name == "qwen3_moe" && window > 0) {
    json["use_sliding_window"] = true;
    json["sliding_window"] = window;
  } else if (family_of(config).layers_choose_window && window > 0) {
    json["use_sliding_window"] = true;
    json["sliding_window"] = window;
    json["layer_types"] = layer_types(config);
  }
}

// Writes the fields that only some families have.
void write_kinds(const ModelConfig& config, Json& json) {
  const std::string& name = config.architecture;
  const ExpertConfig& experts = config.experts;
  const auto optional = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  if (is_gemma(config)) {
    json["query_pre_attn_scalar"] =
        std::llround(1.0 / (config.attention_scale * config.attention_scale));
    json["attn_logit_softcapping"] = optional(config.attention_cap);
    json["final_logit_softcapping"] = optional(config.logit_cap);
    if (name == "gemma3_text") json["rope_local_base_freq"] = config.local_rope.theta;
  } else if (name == "gpt2") {
    json["n_positions"] = config.position_rows;
    json["scale_attn_weights"] = config.attention_scale == 0.0;
  } else if (name == "granite") {
    json["embedding_multiplier"] = config.embedding_scale;
    json["residual_multiplier"] = config.residual_scale;
    json["attention_multiplier"] = config.attention_scale;
    json["logits_scaling"] = config.logit_divisor;
  } else if (name == "smollm3") {
    Json list = Json::array();
    for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
      list.push_back(config.rope_of(layer) == LayerRope::kMain ? 1 : 0);
    }
    json["no_rope_layers"] = std::move(list);
  } else if (name == "mixtral") {
    json["num_local_experts"] = experts.count;
    json["num_experts_per_tok"] = experts.used;
  } else if (name == "qwen3_moe") {
    json["num_experts"] = experts.count;
    json["num_experts_per_tok"] = experts.used;
    json["moe_intermediate_size"] = experts.inner_size;
    json["norm_topk_prob"] = experts.normalized;
  }
}

}  // namespace

Json config_to_json(const ModelConfig& config, const std::string& dtype) {
  const ModelFamily& family = family_of(config);
  const ConfigNames& names = family.names;
  Json json = {{"architectures", Json::array({family.causal_class})},
               {"model_type", config.architecture},
               {"vocab_size", config.vocab_size},
               {names.hidden, config.hidden_size},
               {names.inner, config.intermediate_size},
               {names.layers, config.num_layers},
               {names.heads, config.num_heads},
               {"num_key_value_heads", config.num_kv_heads},
               {"head_dim", config.head_dim},
               {names.positions, config.max_positions},
               {names.epsilon, config.rms_norm_eps},
               {"tie_word_embeddings", config.tied_embeddings},
               {names.activation, activation_name(config.kinds.activation)},
               {"torch_dtype", dtype}};
  if (family.may_have_attention_bias) json["attention_bias"] = config.qkv_bias;
  if (family.may_have_mlp_bias) json["mlp_bias"] = config.mlp_bias;
  if (!config.kinds.learned_positions) write_rope(config, json);
  write_windows(config, json);
  write_kinds(config, json);
  json["eos_token_id"] = config.stop_ids.size() == 1 ? Json(config.stop_ids[0])
                         : config.stop_ids.empty()   ? Json(nullptr)
                                                     : Json(config.stop_ids);
  if (!config.head_tokens.empty()) json["head_tokens"] = config.head_tokens;
  return json;
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t sum = 0;
  for (const TensorSpec& spec : expected_tensors(config)) {
    std::int64_t product = 1;
    for (const std::int64_t size : spec.shape) product *= size;
    sum += product;
  }
  return sum;
}

Status check_llama_blocks(const ModelConfig& config, const std::string& what) {
  const auto is_main = [](LayerRope rope) { return rope == LayerRope::kMain; };
  const bool plain = config.kinds == BlockKinds{} && config.experts.count == 0 &&
                     config.embedding_scale == 1.0 && config.residual_scale == 1.0 &&
                     config.logit_divisor == 1.0 && config.attention_scale == 0.0 &&
                     config.attention_cap == 0.0 && config.logit_cap == 0.0 &&
                     config.rotated_dim == 0 && config.rope.attention_factor == 1.0 &&
                     std::all_of(config.layer_ropes.begin(), config.layer_ropes.end(), is_main);
  if (plain) return {};
  return unimplemented(what + " does not support the blocks of this " + config.architecture +
                       " model. Remedy: a llama, mistral, qwen2 or qwen3 model");
}

Status check_plain_head(const ModelConfig& config) {
  if (config.kinds.norm == NormKind::kRms && config.logit_divisor == 1.0 &&
      config.logit_cap == 0.0) {
    return {};
  }
  return unimplemented("exits do not support the final norm and logits of a " +
                       config.architecture + " model. Remedy: run it without exits");
}

}  // namespace outrider
