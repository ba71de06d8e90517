// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/cpu_weights.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/engine/model/cpu/kernels/weight_memory.h"

namespace outrider {
namespace {

// Smaller conversions are faster than writing a file.
constexpr std::int64_t kMinKeptBytes = 64 << 20;

// Whether a cache's matrix equals what a conversion would make. Whether its scales need f32 is
// known only after a conversion.
bool is_made_of(const WeightMatrix& kept, WeightMatrix wanted) {
  const bool is_widened =
      wanted.format.scales == ScaleType::kF16 && kept.format.scales == ScaleType::kF32;
  if (is_widened) wanted.format.scales = ScaleType::kF32;
  return kept.type == wanted.type && kept.format == wanted.format &&
         kept.outputs == wanted.outputs && kept.inputs == wanted.inputs;
}

class LayerFiller final {
 public:
  LayerFiller(const MatrixSource& source, CpuWeights& weights)
      : source_(source), weights_(weights), config_(weights.files->config) {}

  Status fill(std::int32_t index, CpuLayer& layer) {
    norms(index, layer);
    layer.window = config_.windows[static_cast<std::size_t>(index)];
    layer.rope = config_.rope_of(index);
    layer.experts.resize(static_cast<std::size_t>(config_.experts.count));
    for (const LayerMatrix& which : layer_matrices(config_)) {
      OUTRIDER_RETURN_IF_ERROR(matrix(which, index, place_of(which, layer)));
    }
    return {};
  }

  Status fill_output() {
    const bool norm_bias = config_.kinds.norm == NormKind::kLayer;
    weights_.final_norm = vector(weight_name(ModelPart::kFinalNorm));
    if (norm_bias) weights_.final_norm_bias = vector(bias_name(ModelPart::kFinalNorm));
    return matrix({output_part(config_)}, config_.num_layers, weights_.head);
  }

 private:
  std::vector<float> vector(const std::string& name) {
    std::vector<float> values = widened(weights_.files->weights.at(name));
    weights_.bytes_per_pass += static_cast<std::int64_t>(values.size() * sizeof(float));
    return values;
  }

  void norms(std::int32_t index, CpuLayer& layer) {
    const auto weight = [&](ModelPart part) { return vector(weight_name(part, index)); };
    layer.attention_norm = weight(ModelPart::kAttentionNorm);
    layer.mlp_norm = weight(ModelPart::kMlpNorm);
    if (config_.qk_norm) {
      layer.q_norm = weight(ModelPart::kQueryNorm);
      layer.k_norm = weight(ModelPart::kKeyNorm);
    }
    if (config_.kinds.norm == NormKind::kLayer) {
      layer.attention_norm_bias = vector(bias_name(ModelPart::kAttentionNorm, index));
      layer.mlp_norm_bias = vector(bias_name(ModelPart::kMlpNorm, index));
    }
    if (config_.kinds.sandwich_norms) {
      layer.attention_output_norm = weight(ModelPart::kAttentionOutputNorm);
      layer.mlp_output_norm = weight(ModelPart::kMlpOutputNorm);
    }
  }

  bool has_bias(ModelPart part) const {
    switch (part) {
      case ModelPart::kQuery:
      case ModelPart::kKey:
      case ModelPart::kValue:
        return config_.qkv_bias;
      case ModelPart::kAttentionOutput:
        return config_.o_bias;
      case ModelPart::kGate:
      case ModelPart::kUp:
      case ModelPart::kDown:
        return config_.mlp_bias;
      default:
        return false;
    }
  }

  static LinearWeights& place_of(const LayerMatrix& which, CpuLayer& layer) {
    const auto expert = [&]() -> CpuExpert& {
      return layer.experts[static_cast<std::size_t>(which.expert)];
    };
    switch (which.part) {
      case ModelPart::kQuery:
        return layer.q;
      case ModelPart::kKey:
        return layer.k;
      case ModelPart::kValue:
        return layer.v;
      case ModelPart::kAttentionOutput:
        return layer.o;
      case ModelPart::kGate:
        return layer.gate;
      case ModelPart::kUp:
        return layer.up;
      case ModelPart::kDown:
        return layer.down;
      case ModelPart::kRouter:
        return layer.router;
      case ModelPart::kExpertGate:
        return expert().gate;
      case ModelPart::kExpertUp:
        return expert().up;
      default:
        return expert().down;
    }
  }

  // A pass of one row reads only some of the experts.
  Status matrix(const LayerMatrix& which, std::int32_t layer, LinearWeights& out) {
    if (has_bias(which.part)) out.bias = vector(bias_name(which.part, layer));
    OUTRIDER_ASSIGN_OR_RETURN(out.matrix, source_(which, layer));
    if (!is_of_expert(which.part) || which.expert < config_.experts.used) {
      weights_.bytes_per_pass += bytes_of(out.matrix);
    }
    return {};
  }

  const MatrixSource& source_;
  CpuWeights& weights_;
  const ModelConfig& config_;
};

void keep_outputs(WeightMatrix& matrix, std::int64_t count) {
  matrix.outputs = std::min(matrix.outputs, count);
}

void keep_inputs(WeightMatrix& matrix, std::int64_t count) {
  matrix.stored_inputs = matrix.row_inputs();
  matrix.inputs = std::min(matrix.inputs, count);
}

// Keeps the first `count` outputs, or inputs, of the parts; one that is left is the matrix.
void keep_parts(LinearWeights& weights, std::int64_t WeightMatrix::*side,
                void (*keep)(WeightMatrix&, std::int64_t), std::int64_t count) {
  std::vector<WeightMatrix>& parts = weights.parts;
  for (WeightMatrix& part : parts) {
    const std::int64_t has = part.*side;
    keep(part, std::max<std::int64_t>(count, 0));
    count -= has;
  }
  std::erase_if(parts, [side](const WeightMatrix& part) { return part.*side == 0; });
  if (parts.size() != 1) return;
  weights.matrix = parts.front();
  parts.clear();
}

// The first `count` outputs.
void narrow_outputs(LinearWeights& weights, std::int64_t count) {
  keep_outputs(weights.matrix, count);
  keep_parts(weights, &WeightMatrix::outputs, keep_outputs, count);
  if (!weights.bias.empty()) weights.bias.resize(static_cast<std::size_t>(count));
}

void narrow_inputs(LinearWeights& weights, std::int64_t count) {
  keep_inputs(weights.matrix, count);
  keep_parts(weights, &WeightMatrix::inputs, keep_inputs, count);
}

void narrow(CpuLayer& layer, const LayerWidths& widths, const ModelConfig& config) {
  const std::int64_t columns = widths.kv_groups * group_columns(config);
  const std::int64_t heads = std::int64_t{widths.kv_groups} * config.head_dim;
  narrow_outputs(layer.q, columns);
  narrow_outputs(layer.k, heads);
  narrow_outputs(layer.v, heads);
  narrow_inputs(layer.o, columns);
  narrow_outputs(layer.gate, widths.neurons);
  narrow_outputs(layer.up, widths.neurons);
  narrow_inputs(layer.down, widths.neurons);
  if (columns == 0) layer.o = {};
  if (widths.neurons == 0) layer.down = {};
}

// The bytes of a layer's matrices and their biases.
std::int64_t layer_bytes(const CpuLayer& layer) {
  std::int64_t bytes = 0;
  visit_matrices(layer, [&bytes](const LinearWeights& weights) {
    bytes += bytes_of(weights.matrix) + std::int64_t{sizeof(float)} * std::ssize(weights.bias);
  });
  return bytes;
}

}  // namespace

Status fill_layers(const MatrixSource& source, CpuWeights& weights, const LayerDone& done) {
  const ModelConfig& config = weights.files->config;
  if (config.position_rows > 0) {
    weights.positions = weights.files->weights.at(weight_name(ModelPart::kPositions));
  }
  LayerFiller filler(source, weights);
  weights.layers.resize(static_cast<std::size_t>(config.num_layers));
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    OUTRIDER_RETURN_IF_ERROR(filler.fill(i, weights.layers[static_cast<std::size_t>(i)]));
    if (done) OUTRIDER_RETURN_IF_ERROR(done(i));
  }
  OUTRIDER_RETURN_IF_ERROR(filler.fill_output());
  return done ? done(config.num_layers) : Status();
}

CpuWeights weights_of_level(const CpuWeights& full, const ElasticLevel& level) {
  CpuWeights weights;
  weights.files = full.files;
  weights.embedding = full.embedding;
  weights.positions = full.positions;
  weights.final_norm = full.final_norm;
  weights.final_norm_bias = full.final_norm_bias;
  weights.head = full.head;
  weights.quantized = full.quantized;
  weights.dtype = full.dtype;
  weights.arithmetic = full.arithmetic;
  weights.order = full.order;
  weights.level = &level;
  weights.layers = full.layers;
  const ModelConfig& config = full.files->config;
  weights.bytes_per_pass = full.bytes_per_pass;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    CpuLayer& layer = weights.layers[i];
    weights.bytes_per_pass -= layer_bytes(layer);
    narrow(layer, level.layers[i], config);
    weights.bytes_per_pass += layer_bytes(layer);
  }
  return weights;
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
  if (weights_.files->elastic != nullptr) weights_.order = order_id(*weights_.files->elastic);
  kind_ = std::string(to_string(type_));
  // The part before the comma is in a file's name: each order has a file of its own.
  constexpr std::size_t kShown = 22;
  if (!weights_.order.empty()) kind_ += " " + weights_.order.substr(0, kShown);
  kind_ += std::string(", kernels ") + kKernelVersion + weights_.order;
  weights_.embedding = weights_.files->weights.at(weight_name(ModelPart::kEmbedding));
  const bool stored_bf16 = weights_.embedding.dtype == DType::kBF16;
  const bool bf16 = type_ == ComputeType::kBf16 || (type_ == ComputeType::kAuto && stored_bf16);
  weights_.dtype = bf16 ? "bf16" : "f32";
  weights_.arithmetic = "exact";
  bytes_to_read_ = progress_ ? bytes_to_convert() : 0;
}

Status CpuWeightsLoader::fill(const LayerDone& done) {
  return fill_layers(
      [this](const LayerMatrix& which, std::int32_t layer) { return load_matrix(which, layer); },
      weights_, done);
}

// Without its data, if it is converted.
WeightMatrix CpuWeightsLoader::planned_matrix(const LayerMatrix& which, std::int32_t layer) const {
  const bool is_output = layer == weights_.files->config.num_layers;
  const TensorView& source =
      weights_.files->weights.at(weight_name(which.part, layer, which.expert));
  // A router is small, and its least error sends a row to other experts.
  const bool stays = which.part == ModelPart::kRouter && type_ != ComputeType::kBf16;
  WeightMatrix matrix = computed_matrix(source, stays ? ComputeType::kF32 : type_, is_output);
  const std::span<const TokenId> chosen = chosen_rows(layer);
  if (!chosen.empty()) matrix.outputs = std::ssize(chosen);
  return matrix;
}

// A shortlist takes some rows of the output matrix; empty: all.
std::span<const TokenId> CpuWeightsLoader::chosen_rows(std::int32_t layer) const {
  const ModelConfig& config = weights_.files->config;
  if (layer != config.num_layers) return {};
  return config.head_tokens;
}

bool CpuWeightsLoader::converts(const LayerMatrix& which, std::int32_t layer) const {
  const TensorView& source =
      weights_.files->weights.at(weight_name(which.part, layer, which.expert));
  return !chosen_rows(layer).empty() || !is_as_stored(source, planned_matrix(which, layer));
}

// The total of the progress: the stored bytes of the matrices that are converted.
std::int64_t CpuWeightsLoader::bytes_to_convert() const {
  const ModelConfig& config = weights_.files->config;
  std::int64_t bytes = 0;
  const auto add = [&](const LayerMatrix& which, std::int32_t layer) {
    if (!converts(which, layer)) return;
    const std::string name = weight_name(which.part, layer, which.expert);
    bytes += weights_.files->weights.at(name).row_bytes() * planned_matrix(which, layer).outputs;
  };
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LayerMatrix& which : layer_matrices(config)) add(which, layer);
  }
  add({.part = output_part(config)}, config.num_layers);
  return bytes;
}

Result<WeightMatrix> CpuWeightsLoader::load_matrix(const LayerMatrix& which, std::int32_t layer) {
  const std::string name = weight_name(which.part, layer, which.expert);
  WeightMatrix matrix = planned_matrix(which, layer);
  note_kind(weights_.files->weights.at(name), matrix);
  if (converts(which, layer)) {
    OUTRIDER_RETURN_IF_ERROR(convert(name, layer, chosen_rows(layer), matrix));
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
  std::int64_t shown = 0;  // rows
  const auto show = [&](std::int64_t rows) {
    if (!progress_ || rows <= shown) return;
    shown = rows;
    progress_(bytes_read_ + source.row_bytes() * rows, bytes_to_read_);
  };
  OUTRIDER_RETURN_IF_ERROR(converter_.convert(source, matrix, weights_.converted, chosen, show));
  to_keep_.push_back({name, matrix, layer});
  show(matrix.outputs);
  bytes_read_ += source.row_bytes() * matrix.outputs;
  return {};
}

}  // namespace outrider
