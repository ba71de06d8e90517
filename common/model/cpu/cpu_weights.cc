// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/cpu_weights.h"

#include <optional>
#include <utility>

#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/format/architecture.h"

namespace outrider {
namespace {

// Smaller conversions are faster than writing a file.
constexpr std::int64_t kMinKeptBytes = 64 << 20;

// Whether a cache's matrix equals what a conversion would make. Whether its scales are wide is
// known only after a conversion.
bool is_made_of(const WeightMatrix& kept, WeightMatrix wanted) {
  wanted.format.wide_scales = kept.format.wide_scales;
  return kept.type == wanted.type && kept.format == wanted.format &&
         kept.outputs == wanted.outputs && kept.inputs == wanted.inputs;
}

}  // namespace

Status fill_layers(const MatrixSource& source, CpuWeights& weights, const LayerDone& done) {
  const ModelConfig& config = weights.files->config;
  const auto vector = [&](const std::string& name) {
    std::vector<float> values = widened(weights.files->weights.at(name));
    weights.bytes_per_pass += static_cast<std::int64_t>(values.size() * sizeof(float));
    return values;
  };
  const auto linear = [&](ModelPart part, std::int32_t layer, bool has_bias,
                          LinearWeights& out) -> Status {
    if (has_bias) out.bias = vector(bias_name(part, layer));
    OUTRIDER_ASSIGN_OR_RETURN(out.matrix, source(part, layer));
    weights.bytes_per_pass += bytes_of(out.matrix);
    return {};
  };
  weights.layers.resize(static_cast<std::size_t>(config.num_layers));
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    CpuLayer& layer = weights.layers[static_cast<std::size_t>(i)];
    layer.attention_norm = vector(weight_name(ModelPart::kAttentionNorm, i));
    layer.mlp_norm = vector(weight_name(ModelPart::kMlpNorm, i));
    if (config.qk_norm) {
      layer.q_norm = vector(weight_name(ModelPart::kQueryNorm, i));
      layer.k_norm = vector(weight_name(ModelPart::kKeyNorm, i));
    }
    layer.window = config.windows[static_cast<std::size_t>(i)];
    OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kQuery, i, config.qkv_bias, layer.q));
    OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kKey, i, config.qkv_bias, layer.k));
    OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kValue, i, config.qkv_bias, layer.v));
    OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kAttentionOutput, i, config.o_bias, layer.o));
    OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kGate, i, config.mlp_bias, layer.gate));
    OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kUp, i, config.mlp_bias, layer.up));
    OUTRIDER_RETURN_IF_ERROR(linear(ModelPart::kDown, i, config.mlp_bias, layer.down));
    if (done) OUTRIDER_RETURN_IF_ERROR(done(i));
  }
  weights.final_norm = vector(weight_name(ModelPart::kFinalNorm));
  OUTRIDER_RETURN_IF_ERROR(linear(output_part(config), config.num_layers, false, weights.head));
  return done ? done(config.num_layers) : Status();
}

Result<CpuWeights> CpuWeightsLoader::load(std::shared_ptr<const ModelFiles> files,
                                          ComputeType type) {
  begin(std::move(files), type);
  weights_.kept = cache_.open(weights_.files->name, weights_.files->fingerprint, kind_, pool_);
  OUTRIDER_RETURN_IF_ERROR(fill({}));
  if (bytes_read_ >= kMinKeptBytes) {
    cache_.keep(weights_.files->name, weights_.files->fingerprint, kind_, to_keep_);
  }
  return std::move(weights_);
}

Result<CpuWeights> CpuWeightsLoader::load_by_layer(std::shared_ptr<const ModelFiles> files,
                                                   ComputeType type, const TakeLayer& take) {
  begin(std::move(files), type);
  OUTRIDER_RETURN_IF_ERROR(fill([&](std::int32_t layer) {
    Status taken = take(weights_, layer);
    weights_.converted.clear();
    return taken;
  }));
  return std::move(weights_);
}

void CpuWeightsLoader::begin(std::shared_ptr<const ModelFiles> files, ComputeType type) {
  type_ = type == ComputeType::kAuto ? settle_auto(*files) : type;
  bytes_read_ = 0;
  to_keep_.clear();
  weights_ = {};
  weights_.files = std::move(files);
  kind_ = std::string(to_string(type_)) + ", kernels " + kKernelVersion;
  weights_.embedding = weights_.files->weights.at(weight_name(ModelPart::kEmbedding));
  const bool stored_bf16 = weights_.embedding.dtype == DType::kBF16;
  const bool bf16 = type_ == ComputeType::kBf16 || (type_ == ComputeType::kAuto && stored_bf16);
  weights_.dtype = bf16 ? "bf16" : "f32";
  weights_.arithmetic = "exact";
}

Status CpuWeightsLoader::fill(const LayerDone& done) {
  return fill_layers(
      [this](ModelPart part, std::int32_t layer) { return load_matrix(part, layer); }, weights_,
      done);
}

Result<WeightMatrix> CpuWeightsLoader::load_matrix(ModelPart part, std::int32_t layer) {
  const bool is_output = layer == weights_.files->config.num_layers;
  const std::string name = weight_name(part, layer);
  const TensorView& source = weights_.files->weights.at(name);
  WeightMatrix matrix = computed_matrix(source, type_, is_output);
  note_kind(source, matrix);
  // A shortlist takes some rows of the output matrix.
  const std::span<const TokenId> chosen =
      is_output ? std::span(weights_.files->config.head_tokens) : std::span<const TokenId>();
  if (!chosen.empty()) matrix.outputs = std::ssize(chosen);
  if (!is_as_stored(source, matrix) || !chosen.empty()) {
    OUTRIDER_RETURN_IF_ERROR(convert(name, layer, chosen, matrix));
  }
  return matrix;
}

// Records how the matrix affects the name of the model's arithmetic.
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

// Or takes the matrix from the cache.
Status CpuWeightsLoader::convert(const std::string& name, std::int64_t layer,
                                 std::span<const TokenId> chosen, WeightMatrix& matrix) {
  const std::optional<WeightMatrix> kept =
      weights_.kept != nullptr ? weights_.kept->find(name) : std::nullopt;
  if (kept && is_made_of(*kept, matrix)) {
    matrix = *kept;
    return {};
  }
  const TensorView& source = weights_.files->weights.at(name);
  OUTRIDER_ASSIGN_OR_RETURN(AnonymousMemory memory, converter_.convert(source, matrix, chosen));
  weights_.converted.push_back(std::move(memory));
  to_keep_.push_back({name, matrix, layer});
  bytes_read_ += source.row_bytes() * matrix.outputs;
  if (progress_) progress_(bytes_read_, weights_.files->weights.num_bytes());
  return {};
}

}  // namespace outrider
