// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/cpu_weights.h"

#include <optional>
#include <utility>

#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/format/architecture.h"

namespace outrider {
namespace {

// Less is converted faster than a file is written.
constexpr std::int64_t kMinKeptBytes = 64 << 20;

// Whether a cache's matrix is what a conversion would make; only the conversion knows whether its
// scales are wide.
bool is_made_of(const WeightMatrix& kept, WeightMatrix wanted) {
  wanted.format.wide_scales = kept.format.wide_scales;
  return kept.type == wanted.type && kept.format == wanted.format &&
         kept.outputs == wanted.outputs && kept.inputs == wanted.inputs;
}

}  // namespace

Result<CpuWeights> CpuWeightsLoader::load(std::shared_ptr<const ModelFiles> files,
                                          ComputeType type) {
  type_ = type == ComputeType::kAuto ? settle_auto(*files) : type;
  bytes_read_ = 0;
  to_keep_.clear();
  weights_ = {};
  weights_.files = std::move(files);
  const std::string arithmetic = std::string(to_string(type_)) + ", kernels " + kKernelVersion;
  weights_.kept = cache_.open(weights_.files->name, weights_.files->fingerprint, arithmetic, pool_);
  const ModelConfig& config = weights_.files->config;
  weights_.embedding = weights_.files->weights.at(weight_name(ModelPart::kEmbedding));
  const bool stored_bf16 = weights_.embedding.dtype == DType::kBF16;
  const bool bf16 = type_ == ComputeType::kBf16 || (type_ == ComputeType::kAuto && stored_bf16);
  weights_.dtype = bf16 ? "bf16" : "f32";
  weights_.arithmetic = "exact";
  weights_.layers.resize(static_cast<std::size_t>(config.num_layers));
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    OUTRIDER_RETURN_IF_ERROR(load_layer(i, weights_.layers[static_cast<std::size_t>(i)]));
  }
  weights_.final_norm = load_vector(weight_name(ModelPart::kFinalNorm));
  OUTRIDER_RETURN_IF_ERROR(
      load_linear(output_part(config), config.num_layers, false, weights_.head));
  if (bytes_read_ >= kMinKeptBytes) {
    cache_.keep(weights_.files->name, weights_.files->fingerprint, arithmetic, to_keep_);
  }
  return std::move(weights_);
}

Status CpuWeightsLoader::load_layer(std::int64_t index, CpuLayer& layer) {
  const ModelConfig& config = weights_.files->config;
  const auto number = static_cast<std::int32_t>(index);
  const auto vector = [&](ModelPart part) { return load_vector(weight_name(part, number)); };
  layer.attention_norm = vector(ModelPart::kAttentionNorm);
  layer.mlp_norm = vector(ModelPart::kMlpNorm);
  if (config.qk_norm) {
    layer.q_norm = vector(ModelPart::kQueryNorm);
    layer.k_norm = vector(ModelPart::kKeyNorm);
  }
  const auto linear = [&](ModelPart part, bool has_bias, LinearWeights& out) {
    return load_linear(part, index, has_bias, out);
  };
  layer.window = config.windows[static_cast<std::size_t>(index)];
  OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kQuery, config.qkv_bias, layer.q));
  OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kKey, config.qkv_bias, layer.k));
  OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kValue, config.qkv_bias, layer.v));
  OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kAttentionOutput, config.o_bias, layer.o));
  OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kGate, config.mlp_bias, layer.gate));
  OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kUp, config.mlp_bias, layer.up));
  return linear(ModelPart::kDown, config.mlp_bias, layer.down);
}

Status CpuWeightsLoader::load_linear(ModelPart part, std::int64_t layer, bool has_bias,
                                     LinearWeights& out) {
  const auto number = static_cast<std::int32_t>(layer);
  const std::string name = weight_name(part, number);
  const TensorView& source = weights_.files->weights.at(name);
  if (has_bias) out.bias = load_vector(bias_name(part, number));
  const bool is_output = layer == weights_.files->config.num_layers;
  out.matrix = computed_matrix(source, type_, is_output);
  note_kind(source, out.matrix);
  if (!is_as_stored(source, out.matrix)) {
    OUTRIDER_RETURN_IF_ERROR(convert(name, layer, out.matrix));
  }
  weights_.bytes_per_pass +=
      bytes_of(out.matrix) + static_cast<std::int64_t>(out.bias.size() * sizeof(float));
  return {};
}

// What the matrix says of the model's arithmetic.
void CpuWeightsLoader::note_kind(const TensorView& source, const WeightMatrix& matrix) {
  if (matrix.type == WeightType::kQuantized) {
    weights_.quantized = true;
    const bool is_int4 = matrix.format.bits == 4 || weights_.dtype == "int4";
    weights_.dtype = is_int4 ? "int4" : "int8";
    weights_.arithmetic = type_ == ComputeType::kAuto ? "blocks" : std::string(to_string(type_));
  } else if (matrix.type == WeightType::kBf16 && source.dtype != DType::kBF16) {
    weights_.arithmetic = "bf16";
  }
}

// Or takes what a cache kept.
Status CpuWeightsLoader::convert(const std::string& name, std::int64_t layer,
                                 WeightMatrix& matrix) {
  const std::optional<WeightMatrix> kept =
      weights_.kept != nullptr ? weights_.kept->find(name) : std::nullopt;
  if (kept && is_made_of(*kept, matrix)) {
    matrix = *kept;
    return {};
  }
  const TensorView& source = weights_.files->weights.at(name);
  OUTRIDER_ASSIGN_OR_RETURN(AnonymousMemory memory, converter_.convert(source, matrix));
  weights_.converted.push_back(std::move(memory));
  to_keep_.push_back({name, matrix, layer});
  bytes_read_ += static_cast<std::int64_t>(source.num_bytes);
  if (progress_) progress_(bytes_read_, weights_.files->weights.num_bytes());
  return {};
}

std::vector<float> CpuWeightsLoader::load_vector(const std::string& name) {
  const TensorView& source = weights_.files->weights.at(name);
  std::vector<float> values(static_cast<std::size_t>(source.num_elements()));
  widen(source, 0, values);
  weights_.bytes_per_pass += static_cast<std::int64_t>(values.size() * sizeof(float));
  return values;
}

}  // namespace outrider
