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

namespace {

// Shapes of published models, from their config.json on the Hugging Face hub.
struct KnownShape {
  const char* name;
  const char* architecture;
  std::int32_t vocab_size;
  std::int32_t hidden_size;
  std::int32_t intermediate_size;
  std::int32_t num_layers;
  std::int32_t num_heads;
  std::int32_t num_kv_heads;
  std::int32_t head_dim;
  Position max_positions;
  double rms_norm_eps;
  double rope_theta;
  bool tied_embeddings;
  TokenId stop_id;
};

constexpr std::array<KnownShape, 15> kShapes = {{
    {"tinyllama-1.1b", "llama", 32000, 2048, 5632, 22, 32, 4, 64, 2048, 1e-5, 1e4, false, 2},
    {"llama2-7b", "llama", 32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5, 1e4, false, 2},
    {"vicuna-7b", "llama", 32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5, 1e4, false, 2},
    {"llama2-13b", "llama", 32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5, 1e4, false, 2},
    {"vicuna-13b", "llama", 32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5, 1e4, false, 2},
    {"llama2-70b", "llama", 32000, 8192, 28672, 80, 64, 8, 128, 4096, 1e-5, 1e4, false, 2},
    {"llama3-8b", "llama", 128256, 4096, 14336, 32, 32, 8, 128, 8192, 1e-5, 5e5, false, 128001},
    {"mistral-7b", "mistral", 32000, 4096, 14336, 32, 32, 8, 128, 32768, 1e-5, 1e4, false, 2},
    {"qwen2.5-0.5b", "qwen2", 151936, 896, 4864, 24, 14, 2, 64, 32768, 1e-6, 1e6, true, 151643},
    {"qwen2.5-1.5b", "qwen2", 151936, 1536, 8960, 28, 12, 2, 128, 131072, 1e-6, 1e6, true, 151643},
    {"qwen2.5-7b", "qwen2", 152064, 3584, 18944, 28, 28, 4, 128, 131072, 1e-6, 1e6, false, 151643},
    {"qwen2-7b", "qwen2", 152064, 3584, 18944, 28, 28, 4, 128, 131072, 1e-6, 1e6, false, 151643},
    {"qwen3-0.6b", "qwen3", 151936, 1024, 3072, 28, 16, 8, 128, 40960, 1e-6, 1e6, true, 151645},
    {"qwen3-1.7b", "qwen3", 151936, 2048, 6144, 28, 16, 8, 128, 40960, 1e-6, 1e6, true, 151645},
    {"qwen3-8b", "qwen3", 151936, 4096, 12288, 36, 32, 8, 128, 40960, 1e-6, 1e6, false, 151645},
}};

ModelConfig to_config(const KnownShape& shape) {
  ModelConfig config;
  config.architecture = shape.architecture;
  config.vocab_size = shape.vocab_size;
  config.hidden_size = shape.hidden_size;
  config.intermediate_size = shape.intermediate_size;
  config.num_layers = shape.num_layers;
  config.num_heads = shape.num_heads;
  config.num_kv_heads = shape.num_kv_heads;
  config.head_dim = shape.head_dim;
  config.max_positions = shape.max_positions;
  config.rms_norm_eps = shape.rms_norm_eps;
  config.tied_embeddings = shape.tied_embeddings;
  config.qkv_bias = find_family(shape.architecture)->qkv_bias;
  config.qk_norm = find_family(shape.architecture)->qk_norm;
  config.rope.theta = shape.rope_theta;
  // Mistral 7B v0.1's window is 4096; the later versions have none, and no other entry has one.
  const Position window = config.architecture == "mistral" ? 4096 : 0;
  config.windows.assign(static_cast<std::size_t>(config.num_layers), window);
  config.stop_ids = {shape.stop_id};
  return config;
}

}  // namespace

std::vector<std::string> known_shape_names() {
  std::vector<std::string> names;
  names.reserve(kShapes.size());
  for (const KnownShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

Result<ModelConfig> known_shape(std::string_view name) {
  std::string names;
  for (const KnownShape& shape : kShapes) {
    if (name == shape.name) return to_config(shape);
    names += std::string(names.empty() ? "" : ", ") + shape.name;
  }
  return not_found("no known shape \"" + std::string(name.substr(0, 60)) + "\"; known are " +
                   names);
}

}  // namespace outrider
