// Kinds of blocks, scales, windows and experts of config.json. SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "common/engine/model/format/config_readers.h"

namespace outrider {
namespace {

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"silu", Activation::kSilu},         {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},         {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_new", Activation::kGeluTanh}, {"relu", Activation::kRelu}};

// All layers' experts together, so that a list of them stays small.
constexpr std::int64_t kMaxAllExperts = 1 << 15;

void read_activation(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  if (!fields.has(family.names.activation)) return;
  const std::string name = fields.text(family.names.activation);
  for (const auto& [known, activation] : kActivations) {
    if (name != known) continue;
    config.kinds.activation = activation;
    return;
  }
  fields.fail(unimplemented(fields.what() + ": " + family.names.activation + " \"" +
                            name.substr(0, 60) +
                            "\" is not supported; supported are silu, gelu, gelu_pytorch_tanh, "
                            "gelu_new and relu"));
}

void read_biases(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  config.qkv_bias = family.qkv_bias;
  const bool attention_bias = fields.flag("attention_bias", false);
  if (family.may_have_attention_bias) config.qkv_bias = config.o_bias = attention_bias;
  if (family.may_have_mlp_bias) config.mlp_bias = fields.flag("mlp_bias", false);
  if (family.all_biases) config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.qk_norm = family.qk_norm;
}

void refuse_flag(FieldReader& fields, const char* key, bool absent, bool refused) {
  if (fields.flag(key, absent) != refused) return;
  fields.fail(unimplemented(fields.what() + ": " + key + " " + (refused ? "true" : "false") +
                            " is not supported"));
}

// An explicit null means none.
double read_cap(FieldReader& fields, const char* key, double absent) {
  const bool is_null = fields.object().contains(key) && !fields.has(key);
  return is_null ? 0.0 : fields.real(key, 1e-3, 1e6, absent);
}

void read_gemma(FieldReader& fields, ModelConfig& config) {
  refuse_flag(fields, "use_bidirectional_attention", false, true);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  const auto scalar = static_cast<double>(fields.integer("query_pre_attn_scalar", 1, 1 << 20, 256));
  config.attention_scale = 1.0 / std::sqrt(scalar);
  const bool is_gemma2 = config.architecture == "gemma2";
  config.attention_cap = read_cap(fields, "attn_logit_softcapping", is_gemma2 ? 50.0 : 0.0);
  config.logit_cap = read_cap(fields, "final_logit_softcapping", is_gemma2 ? 30.0 : 0.0);
  if (is_gemma2 || config.attention_cap == 0.0) return;
  fields.fail(unimplemented(fields.what() + ": attn_logit_softcapping is not supported in " +
                            config.architecture + ": transformers ignores it"));
}

void read_gpt2(FieldReader& fields, ModelConfig& config) {
  refuse_flag(fields, "scale_attn_by_inverse_layer_idx", false, true);
  refuse_flag(fields, "add_cross_attention", false, true);
  if (!fields.flag("scale_attn_weights", true)) config.attention_scale = 1.0;
  config.position_rows = static_cast<std::int32_t>(config.max_positions);
}

void read_granite(FieldReader& fields, ModelConfig& config) {
  config.embedding_scale = fields.real("embedding_multiplier", 1e-6, 1e6, 1.0);
  config.residual_scale = fields.real("residual_multiplier", 1e-6, 1e6, 1.0);
  config.attention_scale = fields.real("attention_multiplier", 1e-6, 1e6, 1.0);
  config.logit_divisor = fields.real("logits_scaling", 1e-6, 1e6, 1.0);
}

Status read_experts(FieldReader& fields, ModelConfig& config) {
  const auto count = [&fields](const char* key, std::int64_t high, std::int64_t absent) {
    return static_cast<std::int32_t>(fields.integer(key, 1, high, absent));
  };
  ExpertConfig& experts = config.experts;
  const bool is_mixtral = config.architecture == "mixtral";
  const bool local = is_mixtral || fields.has("num_local_experts");
  experts.count =
      count(local ? "num_local_experts" : "num_experts", kMaxExperts, is_mixtral ? 8 : 128);
  experts.used = count("num_experts_per_tok", kMaxExperts, is_mixtral ? 2 : 8);
  experts.inner_size = config.intermediate_size;
  if (!is_mixtral) {
    experts.inner_size = count("moe_intermediate_size", kMaxIntermediate, 768);
    experts.normalized = fields.flag("norm_topk_prob", false);
    const bool mixed =
        (fields.has("mlp_only_layers") && fields.object()["mlp_only_layers"] != Json::array()) ||
        fields.integer("decoder_sparse_step", 1, kMaxLayers, 1) != 1;
    if (mixed) {
      fields.fail(unimplemented(fields.what() +
                                ": layers without experts (mlp_only_layers, decoder_sparse_step) "
                                "are not supported"));
    }
  }
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  return check_experts(config, fields.what() + ": num_experts_per_tok");
}

// A window that is longer than any text counts as none.
Position effective_window(std::int64_t window, Position max_positions) {
  return window >= max_positions ? 0 : window;
}

Status check_layer_list(const FieldReader& fields, const char* key, const ModelConfig& config) {
  const Json& list = fields.object()[key];
  if (list.is_array() && list.size() == static_cast<std::size_t>(config.num_layers)) return {};
  return invalid_argument(fields.what() + ": " + key + " must list num_hidden_layers (" +
                          std::to_string(config.num_layers) + ") entries");
}

Status read_layer_types(FieldReader& fields, const ModelFamily& family, Position window,
                        ModelConfig& config) {
  if (!fields.has("layer_types")) return {};
  OUTRIDER_RETURN_IF_ERROR(check_layer_list(fields, "layer_types", config));
  const Json& types = fields.object()["layer_types"];
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    const bool sliding = types[layer] == "sliding_attention";
    if (!sliding && types[layer] != "full_attention") {
      return unimplemented(fields.what() + ": layer_types[" + std::to_string(layer) +
                           "] must be full_attention or sliding_attention");
    }
    const Position wanted = sliding ? window : 0;
    if (!family.layers_choose_window && wanted != config.windows[layer]) {
      return unimplemented(fields.what() + ": layer_types of a " + config.architecture +
                           " model must agree with sliding_window");
    }
    config.windows[layer] = wanted;
    if (config.architecture == "gemma3_text") {
      config.layer_ropes[layer] = sliding ? LayerRope::kLocal : LayerRope::kMain;
    }
  }
  return {};
}

// Every second (Gemma 2) or sixth layer sees all positions, unless layer_types says it otherwise.
Status read_gemma_windows(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  const Position window = effective_window(fields.integer("sliding_window", 1, kMaxPositions, 4096),
                                           config.max_positions);
  const char* key =
      fields.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  const std::int64_t period = fields.integer(key, 1, kMaxLayers, gemma_period(config));
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  set_gemma_layers(window, period, config);
  return read_layer_types(fields, family, window, config);
}

// A list of 1 where a layer rotates and 0 where not; else every fourth does not.
Status read_smollm3_layers(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  const std::int64_t period = fields.integer("no_rope_layer_interval", 1, kMaxLayers, 4);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  set_smollm3_layers(period, config);
  if (fields.has("no_rope_layers")) {
    OUTRIDER_RETURN_IF_ERROR(check_layer_list(fields, "no_rope_layers", config));
    const Json& list = fields.object()["no_rope_layers"];
    for (std::size_t layer = 0; layer < list.size(); ++layer) {
      if (list[layer] != 0 && list[layer] != 1) {
        return invalid_argument(fields.what() + ": no_rope_layers[" + std::to_string(layer) +
                                "] must be 0 or 1");
      }
      config.layer_ropes[layer] = list[layer] == 1 ? LayerRope::kMain : LayerRope::kNone;
    }
  }
  if (fields.flag("use_sliding_window", false) && fields.has("sliding_window")) {
    return unimplemented(fields.what() + ": use_sliding_window true is not supported in smollm3");
  }
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  return read_layer_types(fields, family, 0, config);
}

}  // namespace

bool is_gemma(const ModelConfig& config) {
  return config.architecture == "gemma2" || config.architecture == "gemma3_text";
}

std::int64_t gemma_period(const ModelConfig& config) {
  return config.architecture == "gemma2" ? 2 : 6;
}

void set_gemma_layers(Position window, std::int64_t period, ModelConfig& config) {
  const bool has_local = config.architecture == "gemma3_text";
  if (has_local) config.layer_ropes.resize(static_cast<std::size_t>(config.num_layers));
  for (std::size_t layer = 0; layer < config.windows.size(); ++layer) {
    const bool full = (layer + 1) % static_cast<std::size_t>(period) == 0;
    config.windows[layer] = full ? 0 : window;
    if (has_local) config.layer_ropes[layer] = full ? LayerRope::kMain : LayerRope::kLocal;
  }
}

void set_smollm3_layers(std::int64_t period, ModelConfig& config) {
  config.layer_ropes.assign(static_cast<std::size_t>(config.num_layers), LayerRope::kMain);
  for (std::size_t layer = 0; layer < config.layer_ropes.size(); ++layer) {
    const bool rotates = (layer + 1) % static_cast<std::size_t>(period) != 0;
    config.layer_ropes[layer] = rotates ? LayerRope::kMain : LayerRope::kNone;
  }
}

Status check_experts(const ModelConfig& config, const std::string& what) {
  const ExpertConfig& experts = config.experts;
  if (experts.used > experts.count) {
    return invalid_argument(what + " is " + std::to_string(experts.used) + ", must be from 1 to " +
                            std::to_string(experts.count) + ", the number of experts");
  }
  if (std::int64_t{experts.count} * config.num_layers > kMaxAllExperts) {
    return invalid_argument(what + ": " + std::to_string(experts.count) + " experts in each of " +
                            std::to_string(config.num_layers) + " layers, at most " +
                            std::to_string(kMaxAllExperts) + " are read in all");
  }
  return {};
}

Status read_kinds(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  config.kinds = family.kinds;
  read_activation(fields, family, config);
  read_biases(fields, family, config);
  if (is_gemma(config)) read_gemma(fields, config);
  if (config.architecture == "gpt2") read_gpt2(fields, config);
  if (config.architecture == "granite") read_granite(fields, config);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  return family.has_experts ? read_experts(fields, config) : Status();
}

Status read_windows(FieldReader& fields, const ModelFamily& family, ModelConfig& config) {
  config.windows.assign(static_cast<std::size_t>(config.num_layers), 0);
  const std::string& name = config.architecture;
  if (is_gemma(config)) return read_gemma_windows(fields, family, config);
  if (name == "smollm3") return read_smollm3_layers(fields, family, config);
  std::int64_t first_layer = config.num_layers;
  Position window = 0;
  // In transformers a mistral config without this field has a window; an explicit null means none.
  const bool silent_window = name == "mistral" && !fields.object().contains("sliding_window");
  const bool plain = name == "mistral" || name == "mixtral" || name == "phi3";
  if (silent_window || (plain && fields.has("sliding_window"))) {
    window = fields.integer("sliding_window", 1, kMaxPositions, 4096);
    first_layer = 0;
  } else if (name == "qwen3_moe" && fields.flag("use_sliding_window", false)) {
    window = fields.integer("sliding_window", 1, kMaxPositions, 4096);
    first_layer = 0;
  } else if (family.layers_choose_window && fields.flag("use_sliding_window", false)) {
    window = fields.integer("sliding_window", 1, kMaxPositions, 4096);
    first_layer = fields.integer("max_window_layers", 0, kMaxLayers, 28);
  }
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  window = effective_window(window, config.max_positions);
  for (std::int64_t layer = first_layer; layer < config.num_layers; ++layer) {
    config.windows[static_cast<std::size_t>(layer)] = window;
  }
  return read_layer_types(fields, family, window, config);
}

}  // namespace outrider
