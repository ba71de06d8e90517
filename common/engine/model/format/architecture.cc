// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/architecture.h"

#include <array>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr ModelPart kQkv[] = {ModelPart::kQuery, ModelPart::kKey, ModelPart::kValue};
constexpr ModelPart kGateUp[] = {ModelPart::kGate, ModelPart::kUp};
constexpr ModelPart kSingle[] = {ModelPart::kEmbedding,
                                 ModelPart::kPositions,
                                 ModelPart::kAttentionNorm,
                                 ModelPart::kAttentionOutput,
                                 ModelPart::kAttentionOutputNorm,
                                 ModelPart::kMlpNorm,
                                 ModelPart::kUp,
                                 ModelPart::kDown,
                                 ModelPart::kRouter,
                                 ModelPart::kExpertGate,
                                 ModelPart::kExpertUp,
                                 ModelPart::kExpertDown,
                                 ModelPart::kMlpOutputNorm,
                                 ModelPart::kFinalNorm};

// The list of one part.
constexpr std::span<const ModelPart> only(ModelPart part) {
  for (const ModelPart& single : kSingle) {
    if (single == part) return {&single, 1};
  }
  return {};
}

constexpr StoredRule kGpt2Files[] = {
    {only(ModelPart::kEmbedding), "wte", "token_embd"},
    {only(ModelPart::kPositions), "wpe", "position_embd"},
    {only(ModelPart::kAttentionNorm), "ln_1", "attn_norm"},
    {kQkv, "attn.c_attn", "attn_qkv", true},
    {only(ModelPart::kAttentionOutput), "attn.c_proj", "attn_output", true},
    {only(ModelPart::kMlpNorm), "ln_2", "ffn_norm"},
    {only(ModelPart::kUp), "mlp.c_fc", "ffn_up", true},
    {only(ModelPart::kDown), "mlp.c_proj", "ffn_down", true},
    {only(ModelPart::kFinalNorm), "ln_f", "output_norm"}};

constexpr StoredRule kGemmaFiles[] = {
    {only(ModelPart::kAttentionOutputNorm), "post_attention_layernorm", "post_attention_norm"},
    {only(ModelPart::kMlpNorm), "pre_feedforward_layernorm", "ffn_norm"},
    {only(ModelPart::kMlpOutputNorm), "post_feedforward_layernorm", "post_ffw_norm"}};

constexpr StoredRule kMixtralFiles[] = {
    {only(ModelPart::kRouter), "block_sparse_moe.gate", "ffn_gate_inp"},
    {only(ModelPart::kExpertGate), "block_sparse_moe.experts.*.w1", "ffn_gate_exps"},
    {only(ModelPart::kExpertUp), "block_sparse_moe.experts.*.w3", "ffn_up_exps"},
    {only(ModelPart::kExpertDown), "block_sparse_moe.experts.*.w2", "ffn_down_exps"}};

constexpr StoredRule kPhi3Files[] = {{kQkv, "self_attn.qkv_proj", "attn_qkv"},
                                     {kGateUp, "mlp.gate_up_proj", "ffn_up"}};

constexpr std::array<ModelFamily, 12> kFamilies = {{
    {.name = "llama",
     .causal_class = "LlamaForCausalLM",
     .gguf_name = "llama",
     .max_positions = 2048,
     .num_kv_heads = {},
     .head_dim = {},
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .gguf_interleaves = true},
    {.name = "mistral",
     .causal_class = "MistralForCausalLM",
     .gguf_name = "llama",
     .max_positions = 131072,
     .num_kv_heads = 8,
     .head_dim = {},
     .gguf_interleaves = true},
    {.name = "qwen2",
     .causal_class = "Qwen2ForCausalLM",
     .gguf_name = "qwen2",
     .max_positions = 32768,
     .num_kv_heads = {},
     .head_dim = {},
     .qkv_bias = true,
     .layers_choose_window = true},
    {.name = "qwen3",
     .causal_class = "Qwen3ForCausalLM",
     .gguf_name = "qwen3",
     .max_positions = 32768,
     .num_kv_heads = {},
     .head_dim = 128,
     .qk_norm = true,
     .may_have_attention_bias = true,
     .layers_choose_window = true},
    {.name = "gemma3_text",
     .causal_class = "Gemma3ForCausalLM",
     .gguf_name = "gemma3",
     .max_positions = 131072,
     .num_kv_heads = 4,
     .head_dim = 256,
     .qk_norm = true,
     .may_have_attention_bias = true,
     .layers_choose_window = true,
     .kinds = {.sandwich_norms = true, .activation = Activation::kGeluTanh},
     .theta = 1e6,
     .tied_embeddings = true,
     .norm_offset = 1.0f,
     .names = {.activation = "hidden_activation"},
     .stored = kGemmaFiles},
    {.name = "gemma2",
     .causal_class = "Gemma2ForCausalLM",
     .gguf_name = "gemma2",
     .max_positions = 8192,
     .num_kv_heads = 4,
     .head_dim = 256,
     .may_have_attention_bias = true,
     .layers_choose_window = true,
     .kinds = {.sandwich_norms = true, .activation = Activation::kGeluTanh},
     .tied_embeddings = true,
     .norm_offset = 1.0f,
     .names = {.activation = "hidden_activation"},
     .stored = kGemmaFiles},
    {.name = "gpt2",
     .causal_class = "GPT2LMHeadModel",
     .gguf_name = "gpt2",
     .max_positions = 1024,
     .num_kv_heads = {},
     .head_dim = {},
     .qkv_bias = true,
     .kinds = {.norm = NormKind::kLayer,
               .activation = Activation::kGeluTanh,
               .gated = false,
               .learned_positions = true},
     .epsilon = 1e-5,
     .all_biases = true,
     .tied_embeddings = true,
     .names = {.hidden = "n_embd",
               .inner = "n_inner",
               .layers = "n_layer",
               .heads = "n_head",
               .positions = "n_positions",
               .activation = "activation_function",
               .epsilon = "layer_norm_epsilon"},
     .body = "transformer.",
     .body_is_optional = true,
     .layers = "h.",
     .stored = kGpt2Files},
    {.name = "qwen3_moe",
     .causal_class = "Qwen3MoeForCausalLM",
     .gguf_name = "qwen3moe",
     .max_positions = 32768,
     .num_kv_heads = 4,
     .head_dim = {},
     .qk_norm = true,
     .may_have_attention_bias = true,
     .has_experts = true},
    {.name = "mixtral",
     .causal_class = "MixtralForCausalLM",
     .gguf_name = "llama",
     .max_positions = 131072,
     .num_kv_heads = 8,
     .head_dim = {},
     .gguf_interleaves = true,
     .epsilon = 1e-5,
     .theta = 1e6,
     .has_experts = true,
     .stored = kMixtralFiles},
    {.name = "phi3",
     .causal_class = "Phi3ForCausalLM",
     .gguf_name = "phi3",
     .max_positions = 4096,
     .num_kv_heads = {},
     .head_dim = {},
     .epsilon = 1e-5,
     .stored = kPhi3Files},
    {.name = "granite",
     .causal_class = "GraniteForCausalLM",
     .gguf_name = "granite",
     .max_positions = 2048,
     .num_kv_heads = {},
     .head_dim = {},
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .gguf_interleaves = true},
    {.name = "smollm3",
     .causal_class = "SmolLM3ForCausalLM",
     .gguf_name = "smollm3",
     .max_positions = 32768,
     .num_kv_heads = 4,
     .head_dim = {},
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .gguf_interleaves = true,
     .theta = 2e6,
     .tied_embeddings = true},
}};

enum class Size : std::uint8_t {
  kNone,
  kVocab,
  kPositions,
  kHidden,
  kInner,
  kQuery,
  kKeyValue,
  kHeadDim,
  kExperts
};

using Condition = bool (*)(const ModelConfig&);

constexpr Condition kHasQkvBias = [](const ModelConfig& c) { return c.qkv_bias; };
constexpr Condition kHasOutputBias = [](const ModelConfig& c) { return c.o_bias; };
constexpr Condition kHasMlpBias = [](const ModelConfig& c) { return c.mlp_bias; };
constexpr Condition kHasNormBias = [](const ModelConfig& c) {
  return c.kinds.norm == NormKind::kLayer;
};
constexpr Condition kHasHeadNorms = [](const ModelConfig& c) { return c.qk_norm; };
constexpr Condition kHasSandwich = [](const ModelConfig& c) { return c.kinds.sandwich_norms; };
constexpr Condition kHasPositions = [](const ModelConfig& c) { return c.position_rows > 0; };
constexpr Condition kHasGate = [](const ModelConfig& c) {
  return c.kinds.gated && c.experts.count == 0;
};
constexpr Condition kHasMlp = [](const ModelConfig& c) { return c.experts.count == 0; };
constexpr Condition kHasExperts = [](const ModelConfig& c) { return c.experts.count > 0; };
constexpr Condition kHasHead = [](const ModelConfig& c) { return !c.tied_embeddings; };

// A matrix [rows, columns], or a vector [rows] where columns are kNone, with a bias [rows] if the
// config has it. A '*' in a name is the number of the expert.
struct PartRule {
  ModelPart part;
  bool in_layer;
  const char* name;
  const char* gguf_name;
  Size rows;
  Size columns = Size::kNone;
  Condition bias = nullptr;    // nullptr: never
  Condition exists = nullptr;  // nullptr: always
  bool rotated = false;
};

// In the order of a forward pass.
constexpr std::array<PartRule, 21> kParts = {{
    {ModelPart::kEmbedding, false, "embed_tokens", "token_embd", Size::kVocab, Size::kHidden},
    {ModelPart::kPositions, false, "embed_positions", "position_embd", Size::kPositions,
     Size::kHidden, nullptr, kHasPositions},
    {ModelPart::kAttentionNorm, true, "input_layernorm", "attn_norm", Size::kHidden, Size::kNone,
     kHasNormBias},
    {ModelPart::kQuery, true, "self_attn.q_proj", "attn_q", Size::kQuery, Size::kHidden,
     kHasQkvBias, nullptr, true},
    {ModelPart::kKey, true, "self_attn.k_proj", "attn_k", Size::kKeyValue, Size::kHidden,
     kHasQkvBias, nullptr, true},
    {ModelPart::kValue, true, "self_attn.v_proj", "attn_v", Size::kKeyValue, Size::kHidden,
     kHasQkvBias},
    {ModelPart::kQueryNorm, true, "self_attn.q_norm", "attn_q_norm", Size::kHeadDim, Size::kNone,
     nullptr, kHasHeadNorms},
    {ModelPart::kKeyNorm, true, "self_attn.k_norm", "attn_k_norm", Size::kHeadDim, Size::kNone,
     nullptr, kHasHeadNorms},
    {ModelPart::kAttentionOutput, true, "self_attn.o_proj", "attn_output", Size::kHidden,
     Size::kQuery, kHasOutputBias},
    {ModelPart::kAttentionOutputNorm, true, "attention_output_layernorm", "post_attention_norm",
     Size::kHidden, Size::kNone, nullptr, kHasSandwich},
    {ModelPart::kMlpNorm, true, "post_attention_layernorm", "ffn_norm", Size::kHidden, Size::kNone,
     kHasNormBias},
    {ModelPart::kGate, true, "mlp.gate_proj", "ffn_gate", Size::kInner, Size::kHidden, kHasMlpBias,
     kHasGate},
    {ModelPart::kUp, true, "mlp.up_proj", "ffn_up", Size::kInner, Size::kHidden, kHasMlpBias,
     kHasMlp},
    {ModelPart::kDown, true, "mlp.down_proj", "ffn_down", Size::kHidden, Size::kInner, kHasMlpBias,
     kHasMlp},
    {ModelPart::kRouter, true, "mlp.gate", "ffn_gate_inp", Size::kExperts, Size::kHidden, nullptr,
     kHasExperts},
    {ModelPart::kExpertGate, true, "mlp.experts.*.gate_proj", "ffn_gate_exps", Size::kInner,
     Size::kHidden, nullptr, kHasExperts},
    {ModelPart::kExpertUp, true, "mlp.experts.*.up_proj", "ffn_up_exps", Size::kInner,
     Size::kHidden, nullptr, kHasExperts},
    {ModelPart::kExpertDown, true, "mlp.experts.*.down_proj", "ffn_down_exps", Size::kHidden,
     Size::kInner, nullptr, kHasExperts},
    {ModelPart::kMlpOutputNorm, true, "mlp_output_layernorm", "post_ffw_norm", Size::kHidden,
     Size::kNone, nullptr, kHasSandwich},
    {ModelPart::kFinalNorm, false, "norm", "output_norm", Size::kHidden, Size::kNone, kHasNormBias},
    {ModelPart::kHead, false, "lm_head", "output", Size::kVocab, Size::kHidden, nullptr, kHasHead},
}};

std::int64_t size_of(Size size, const ModelConfig& config) {
  switch (size) {
    case Size::kVocab:
      return config.vocab_size;
    case Size::kPositions:
      return config.position_rows;
    case Size::kHidden:
      return config.hidden_size;
    case Size::kInner:
      return config.inner_size();
    case Size::kQuery:
      return config.q_size();
    case Size::kKeyValue:
      return config.kv_size();
    case Size::kHeadDim:
      return config.head_dim;
    case Size::kExperts:
      return config.experts.count;
    case Size::kNone:
      break;
  }
  return 0;
}

constexpr const PartRule& rule_of(ModelPart part) {
  for (const PartRule& rule : kParts) {
    if (rule.part == part) return rule;
  }
  OUTRIDER_CHECK(false);
}

bool exists(const PartRule& rule, const ModelConfig& config) {
  return rule.exists == nullptr || rule.exists(config);
}

std::string with_expert(std::string name, std::int32_t expert) {
  const std::size_t at = name.find('*');
  return at == std::string::npos ? name : name.replace(at, 1, std::to_string(expert));
}

std::string stem(const PartRule& rule, std::int32_t layer, std::int32_t expert) {
  if (rule.part == ModelPart::kHead) return rule.name;
  const std::string name = with_expert(rule.name, expert);
  return "model." + (rule.in_layer ? "layers." + std::to_string(layer) + "." : "") + name;
}

void add_part(std::vector<TensorSpec>& specs, const PartRule& rule, const ModelConfig& config,
              std::int32_t layer, std::int32_t expert = 0) {
  if (!exists(rule, config)) return;
  const std::string name = stem(rule, layer, expert);
  const std::int64_t rows = size_of(rule.rows, config);
  TensorSpec weight{name + ".weight", {rows}, rule.part, layer, expert, rule.rotated};
  if (rule.columns != Size::kNone) weight.shape.push_back(size_of(rule.columns, config));
  specs.push_back(std::move(weight));
  if (rule.bias != nullptr && rule.bias(config)) {
    specs.push_back({name + ".bias", {rows}, rule.part, layer, expert, rule.rotated, true});
  }
}

void add_layer(std::vector<TensorSpec>& specs, const ModelConfig& config, std::int32_t layer) {
  for (const PartRule& rule : kParts) {
    if (!rule.in_layer) continue;
    if (!is_of_expert(rule.part)) {
      add_part(specs, rule, config, layer);
    } else if (rule.part == ModelPart::kExpertGate) {
      for (std::int32_t expert = 0; expert < config.experts.count; ++expert) {
        for (const ModelPart part :
             {ModelPart::kExpertGate, ModelPart::kExpertUp, ModelPart::kExpertDown}) {
          add_part(specs, rule_of(part), config, layer, expert);
        }
      }
    }
  }
}

}  // namespace

std::span<const ModelFamily> model_families() {
  return kFamilies;
}

const ModelFamily* find_family(std::string_view name) {
  for (const ModelFamily& family : kFamilies) {
    if (name == family.name) return &family;
  }
  return nullptr;
}

const ModelFamily* find_gguf_family(std::string_view gguf_name) {
  for (const ModelFamily& family : kFamilies) {
    if (gguf_name == family.gguf_name) return &family;
  }
  return nullptr;
}

const ModelFamily& family_of(const ModelConfig& config) {
  const ModelFamily* family = find_family(config.architecture);
  OUTRIDER_CHECK(family != nullptr);
  return *family;
}

std::string weight_name(ModelPart part, std::int32_t layer, std::int32_t expert) {
  return stem(rule_of(part), layer, expert) + ".weight";
}

std::string bias_name(ModelPart part, std::int32_t layer) {
  return stem(rule_of(part), layer, 0) + ".bias";
}

std::string stored_stem(ModelPart part, bool in_gguf) {
  return in_gguf ? rule_of(part).gguf_name : rule_of(part).name;
}

bool is_in_layer(ModelPart part) {
  return rule_of(part).in_layer;
}

std::vector<TensorSpec> expected_tensors(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  const auto add_outside = [&](bool before) {
    for (const PartRule& rule : kParts) {
      const bool first = rule.part == ModelPart::kEmbedding || rule.part == ModelPart::kPositions;
      if (!rule.in_layer && first == before) add_part(specs, rule, config, 0);
    }
  };
  add_outside(true);
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) add_layer(specs, config, layer);
  add_outside(false);
  return specs;
}

std::vector<LayerMatrix> layer_matrices(const ModelConfig& config) {
  std::vector<LayerMatrix> matrices;
  for (const PartRule& rule : kParts) {
    if (!rule.in_layer || rule.columns == Size::kNone || !exists(rule, config)) continue;
    if (!is_of_expert(rule.part)) {
      matrices.push_back({rule.part});
    } else if (rule.part == ModelPart::kExpertGate) {
      for (std::int32_t expert = 0; expert < config.experts.count; ++expert) {
        for (const ModelPart part :
             {ModelPart::kExpertGate, ModelPart::kExpertUp, ModelPart::kExpertDown}) {
          matrices.push_back({part, expert});
        }
      }
    }
  }
  return matrices;
}

}  // namespace outrider
