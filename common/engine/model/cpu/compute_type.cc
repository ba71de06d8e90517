// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/compute_type.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/model/cpu/stored_blocks.h"
#include "common/engine/model/format/architecture.h"

namespace outrider {
namespace {

constexpr std::pair<std::string_view, ComputeType> kComputeTypes[] = {{"auto", ComputeType::kAuto},
                                                                      {"f32", ComputeType::kF32},
                                                                      {"bf16", ComputeType::kBf16},
                                                                      {"int8", ComputeType::kInt8},
                                                                      {"int4", ComputeType::kInt4}};

constexpr QuantFormat kInt8Format{.bits = 8};
constexpr QuantFormat kInt4Format{.bits = 4, .has_minimum = true};

WeightType stored_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return WeightType::kF16;
    case DType::kBF16:
      return WeightType::kBf16;
    default:
      break;
  }
  return WeightType::kF32;  // blocks are widened
}

// Whether panels hold every quantised matrix of a directory as it is.
bool keeps_quantized(const ModelFiles& files) {
  return std::ranges::all_of(files.weights.tensors(), [](const auto& named) {
    return named.second.quantized == nullptr || stored_format(named.second);
  });
}

}  // namespace

Result<ComputeType> parse_compute_type(std::string_view name) {
  for (const auto& [known, type] : kComputeTypes) {
    if (known == name) return type;
  }
  return invalid_argument("dtype '" + std::string(name) +
                          "' is unknown. Remedy: use auto, f32, bf16, int8 or int4");
}

std::string_view to_string(ComputeType type) {
  for (const auto& [name, known] : kComputeTypes) {
    if (known == type) return name;
  }
  return "";
}

ComputeType settle_auto(const ModelFiles& files) {
  if (!keeps_quantized(files)) return ComputeType::kBf16;
  const auto is_kept_by = [](const TensorView& source, ComputeType type, bool is_output) {
    const WeightMatrix kept = computed_matrix(source, ComputeType::kAuto, is_output);
    return kept.type == WeightType::kQuantized &&
           computed_matrix(source, type, is_output).format == kept.format;
  };
  const std::vector<LayerMatrix> matrices = layer_matrices(files.config);
  for (const ComputeType type : {ComputeType::kInt8, ComputeType::kInt4}) {
    bool all = is_kept_by(files.weights.at(weight_name(output_part(files.config))), type, true);
    for (std::int32_t layer = 0; all && layer < files.config.num_layers; ++layer) {
      for (const auto& [part, expert] : matrices) {
        all = all && (part == ModelPart::kRouter ||
                      is_kept_by(files.weights.at(weight_name(part, layer, expert)), type, false));
      }
    }
    if (all) return type;
  }
  return ComputeType::kAuto;
}

std::string conversion_note(const ModelFiles& files, ComputeType wanted) {
  const ComputeType type = wanted == ComputeType::kAuto ? settle_auto(files) : wanted;
  if (type == ComputeType::kAuto || type == ComputeType::kF32) return {};
  for (const auto& [name, tensor] : files.weights.tensors()) {
    if (tensor.quantized == nullptr) continue;
    const WeightMatrix matrix = computed_matrix(tensor, type, false);
    const bool is_kept =
        matrix.type == WeightType::kQuantized && keeps_blocks(matrix.format, stored_format(tensor));
    if (is_kept) continue;
    return std::string(to_string(tensor.quantized->method)) + " matrices are converted to " +
           std::string(to_string(type)) +
           (type == ComputeType::kBf16 ? ", which rounds each weight to 8 bits"
                                       : ", which rounds each weight once more") +
           "; --dtype f32 keeps them exactly";
  }
  return {};
}

WeightMatrix computed_matrix(const TensorView& source, ComputeType wanted, bool is_output) {
  WeightMatrix matrix{.type = stored_type(source.dtype),
                      .format = {},
                      .data = source.data,
                      .outputs = source.shape[0],
                      .inputs = source.shape[1]};
  // Blocks whose elements part are quantised anew.
  const bool keeps_groups = source.keeps_runs(kQuantGroup);
  const std::optional<QuantFormat> stored = keeps_groups ? stored_format(source) : std::nullopt;
  const auto quantised = [&](const QuantFormat& format) {
    matrix.type = WeightType::kQuantized;
    matrix.format = format;
    if (!stored || stored->bits > format.bits) return;
    matrix.format = with_bits(*stored, format.bits);
  };
  switch (wanted) {
    case ComputeType::kAuto:
      if (stored) quantised(*stored);
      if (!keeps_groups && block_elements(source.dtype) > 1) quantised(kInt8Format);
      break;
    case ComputeType::kF32:
      break;
    case ComputeType::kBf16:
      matrix.type = WeightType::kBf16;
      break;
    case ComputeType::kInt8:
      quantised(kInt8Format);
      break;
    case ComputeType::kInt4:
      quantised(is_output ? kInt8Format : kInt4Format);
      break;
  }
  return matrix;
}

bool is_as_stored(const TensorView& source, const WeightMatrix& matrix) {
  return block_elements(source.dtype) == 1 && source.is_plain() &&
         matrix.type == stored_type(source.dtype);
}

}  // namespace outrider
