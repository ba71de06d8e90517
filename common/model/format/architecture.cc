// SPDX-License-Identifier: Apache-2.0
#include "common/model/format/architecture.h"

#include <array>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr std::array<ModelFamily, 4> kFamilies = {{
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
}};

enum class Size : std::uint8_t { kNone, kVocab, kHidden, kInner, kQuery, kKeyValue, kHeadDim };

// A matrix [rows, columns], or a vector [rows] where columns are kNone, with a bias [rows] if the
// config's flag says so.
struct PartRule {
  ModelPart part;
  bool in_layer;
  const char* name;
  const char* gguf_name;
  Size rows;
  Size columns = Size::kNone;
  bool ModelConfig::*bias = nullptr;
  bool ModelConfig::*only_with = nullptr;
  bool ModelConfig::*not_with = nullptr;
  bool rotated = false;
};

// In the order of a forward pass.
constexpr std::array<PartRule, 14> kParts = {{
    {ModelPart::kEmbedding, false, "model.embed_tokens", "token_embd", Size::kVocab, Size::kHidden},
    {ModelPart::kAttentionNorm, true, "input_layernorm", "attn_norm", Size::kHidden},
    {.part = ModelPart::kQuery,
     .in_layer = true,
     .name = "self_attn.q_proj",
     .gguf_name = "attn_q",
     .rows = Size::kQuery,
     .columns = Size::kHidden,
     .bias = &ModelConfig::qkv_bias,
     .rotated = true},
    {.part = ModelPart::kKey,
     .in_layer = true,
     .name = "self_attn.k_proj",
     .gguf_name = "attn_k",
     .rows = Size::kKeyValue,
     .columns = Size::kHidden,
     .bias = &ModelConfig::qkv_bias,
     .rotated = true},
    {ModelPart::kValue, true, "self_attn.v_proj", "attn_v", Size::kKeyValue, Size::kHidden,
     &ModelConfig::qkv_bias},
    {.part = ModelPart::kQueryNorm,
     .in_layer = true,
     .name = "self_attn.q_norm",
     .gguf_name = "attn_q_norm",
     .rows = Size::kHeadDim,
     .only_with = &ModelConfig::qk_norm},
    {.part = ModelPart::kKeyNorm,
     .in_layer = true,
     .name = "self_attn.k_norm",
     .gguf_name = "attn_k_norm",
     .rows = Size::kHeadDim,
     .only_with = &ModelConfig::qk_norm},
    {ModelPart::kAttentionOutput, true, "self_attn.o_proj", "attn_output", Size::kHidden,
     Size::kQuery, &ModelConfig::o_bias},
    {ModelPart::kMlpNorm, true, "post_attention_layernorm", "ffn_norm", Size::kHidden},
    {ModelPart::kGate, true, "mlp.gate_proj", "ffn_gate", Size::kInner, Size::kHidden,
     &ModelConfig::mlp_bias},
    {ModelPart::kUp, true, "mlp.up_proj", "ffn_up", Size::kInner, Size::kHidden,
     &ModelConfig::mlp_bias},
    {ModelPart::kDown, true, "mlp.down_proj", "ffn_down", Size::kHidden, Size::kInner,
     &ModelConfig::mlp_bias},
    {ModelPart::kFinalNorm, false, "model.norm", "output_norm", Size::kHidden},
    {.part = ModelPart::kHead,
     .in_layer = false,
     .name = "lm_head",
     .gguf_name = "output",
     .rows = Size::kVocab,
     .columns = Size::kHidden,
     .not_with = &ModelConfig::tied_embeddings},
}};

std::int64_t size_of(Size size, const ModelConfig& config) {
  switch (size) {
    case Size::kVocab:
      return config.vocab_size;
    case Size::kHidden:
      return config.hidden_size;
    case Size::kInner:
      return config.intermediate_size;
    case Size::kQuery:
      return config.q_size();
    case Size::kKeyValue:
      return config.kv_size();
    case Size::kHeadDim:
      return config.head_dim;
    case Size::kNone:
      break;
  }
  return 0;
}

const PartRule& rule_of(ModelPart part) {
  for (const PartRule& rule : kParts) {
    if (rule.part == part) return rule;
  }
  OUTRIDER_CHECK(false);
  return kParts[0];
}

std::string stem(const PartRule& rule, std::int32_t layer) {
  return (rule.in_layer ? "model.layers." + std::to_string(layer) + "." : "") + rule.name;
}

void add_part(std::vector<TensorSpec>& specs, const PartRule& rule, std::int32_t layer,
              const ModelConfig& config) {
  if (rule.only_with != nullptr && !(config.*rule.only_with)) return;
  if (rule.not_with != nullptr && config.*rule.not_with) return;
  const std::string name = stem(rule, layer);
  const std::string gguf =
      (rule.in_layer ? "blk." + std::to_string(layer) + "." : "") + rule.gguf_name;
  const std::int64_t rows = size_of(rule.rows, config);
  TensorSpec weight{name + ".weight", {rows}, gguf + ".weight", rule.part, rule.rotated};
  if (rule.columns != Size::kNone) weight.shape.push_back(size_of(rule.columns, config));
  specs.push_back(std::move(weight));
  if (rule.bias != nullptr && config.*rule.bias) {
    specs.push_back({name + ".bias", {rows}, gguf + ".bias", rule.part, rule.rotated});
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

std::string weight_name(ModelPart part, std::int32_t layer) {
  return stem(rule_of(part), layer) + ".weight";
}

std::string bias_name(ModelPart part, std::int32_t layer) {
  return stem(rule_of(part), layer) + ".bias";
}

std::vector<TensorSpec> expected_tensors(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  const auto add_outside = [&](bool before) {
    for (const PartRule& rule : kParts) {
      const bool first = rule.part == ModelPart::kEmbedding;
      if (!rule.in_layer && first == before) add_part(specs, rule, 0, config);
    }
  };
  add_outside(true);
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const PartRule& rule : kParts) {
      if (rule.in_layer) add_part(specs, rule, layer, config);
    }
  }
  add_outside(false);
  return specs;
}

}  // namespace outrider
