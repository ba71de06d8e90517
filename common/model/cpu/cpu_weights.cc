// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/cpu_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

constexpr std::pair<std::string_view, ComputeType> kComputeTypes[] = {{"auto", ComputeType::kAuto},
                                                                      {"f32", ComputeType::kF32},
                                                                      {"bf16", ComputeType::kBf16},
                                                                      {"int8", ComputeType::kInt8}};

WeightType stored_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightType::kF32;
    case DType::kF16:
      return WeightType::kF16;
    case DType::kBF16:
      break;
  }
  return WeightType::kBf16;
}

WeightType computed_type(DType stored, ComputeType wanted) {
  if (wanted == ComputeType::kInt8) return WeightType::kInt8;
  if (wanted == ComputeType::kBf16) return WeightType::kBf16;
  return stored_type(stored);
}

// Of a matrix with its scales.
std::int64_t bytes_of(WeightType type, std::int64_t outputs, std::int64_t inputs) {
  switch (type) {
    case WeightType::kF32:
      return outputs * inputs * 4;
    case WeightType::kBf16:
    case WeightType::kF16:
      return outputs * inputs * 2;
    case WeightType::kInt8:
      break;
  }
  return outputs * int8_blocks(inputs) * (kInt8Block + kInt8BlockGroups * 2);
}

constexpr std::int64_t kSliceBytes = 32 << 20;

// Takes the pages of converted weights out of our memory; they stay in the system's cache, and are
// mapped again if read again (an embedding that is also the output matrix).
void forget_pages(const std::byte* data, std::int64_t num_bytes) {
  const std::int64_t page = sysconf(_SC_PAGE_SIZE);
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data));
  const std::int64_t begin = address / page * page;  // the first page was read before
  const std::int64_t end = (address + num_bytes) / page * page;
  if (begin >= end) return;
  // The mapping is of a file, read only: nothing is lost.
  madvise(const_cast<std::byte*>(data) - (address - begin), static_cast<std::size_t>(end - begin),
          MADV_DONTNEED);
}

}  // namespace

Result<ComputeType> parse_compute_type(std::string_view name) {
  for (const auto& [known, type] : kComputeTypes) {
    if (known == name) return type;
  }
  return invalid_argument("dtype '" + std::string(name) +
                          "' is unknown. Remedy: use auto, f32, bf16 or int8");
}

std::span<const std::byte> memory_of(const WeightMatrix& matrix) {
  const std::int64_t bytes = bytes_of(matrix.type, matrix.outputs, matrix.inputs);
  return {static_cast<const std::byte*>(matrix.data), static_cast<std::size_t>(bytes)};
}

std::int64_t padding_of(const WeightMatrix& matrix) {
  if (matrix.type != WeightType::kInt8) return 0;
  const std::int64_t groups = (matrix.inputs + kInt8Group - 1) / kInt8Group;
  const std::int64_t used = matrix.outputs * (matrix.inputs + groups * 2);
  return bytes_of(matrix.type, matrix.outputs, matrix.inputs) - used;
}

Result<CpuWeights> CpuWeightsLoader::load(std::shared_ptr<const ModelFiles> files,
                                          ComputeType type) {
  type_ = type;
  bytes_read_ = 0;
  weights_ = {};
  weights_.files = std::move(files);
  const ModelConfig& config = weights_.files->config;
  weights_.embedding = weights_.files->weights.at("model.embed_tokens.weight");
  const bool stored_bf16 = weights_.embedding.dtype == DType::kBF16;
  weights_.quantized = type == ComputeType::kInt8;
  weights_.arithmetic = weights_.quantized ? "int8" : "exact";
  if (weights_.quantized) {
    weights_.dtype = "int8";
  } else {
    const bool bf16 = type == ComputeType::kBf16 || (type == ComputeType::kAuto && stored_bf16);
    weights_.dtype = bf16 ? "bf16" : "f32";
  }
  weights_.layers.resize(static_cast<std::size_t>(config.num_layers));
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    OUTRIDER_RETURN_IF_ERROR(load_layer(i, weights_.layers[static_cast<std::size_t>(i)]));
  }
  weights_.final_norm = load_vector("model.norm.weight");
  const std::string head = config.tied_embeddings ? "model.embed_tokens" : "lm_head";
  OUTRIDER_RETURN_IF_ERROR(load_linear(head, false, weights_.head));
  return std::move(weights_);
}

Status CpuWeightsLoader::load_layer(std::int64_t index, CpuLayer& layer) {
  const ModelConfig& config = weights_.files->config;
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  layer.attention_norm = load_vector(prefix + "input_layernorm.weight");
  layer.mlp_norm = load_vector(prefix + "post_attention_layernorm.weight");
  if (config.qk_norm) {
    layer.q_norm = load_vector(attention + "q_norm.weight");
    layer.k_norm = load_vector(attention + "k_norm.weight");
  }
  layer.window = config.windows[static_cast<std::size_t>(index)];
  OUTRIDER_RETURN_IF_ERROR(load_linear(attention + "q_proj", config.qkv_bias, layer.q));
  OUTRIDER_RETURN_IF_ERROR(load_linear(attention + "k_proj", config.qkv_bias, layer.k));
  OUTRIDER_RETURN_IF_ERROR(load_linear(attention + "v_proj", config.qkv_bias, layer.v));
  OUTRIDER_RETURN_IF_ERROR(load_linear(attention + "o_proj", config.o_bias, layer.o));
  OUTRIDER_RETURN_IF_ERROR(load_linear(mlp + "gate_proj", config.mlp_bias, layer.gate));
  OUTRIDER_RETURN_IF_ERROR(load_linear(mlp + "up_proj", config.mlp_bias, layer.up));
  return load_linear(mlp + "down_proj", config.mlp_bias, layer.down);
}

Status CpuWeightsLoader::load_linear(const std::string& name, bool has_bias, LinearWeights& out) {
  const TensorView& source = weights_.files->weights.at(name + ".weight");
  if (has_bias) out.bias = load_vector(name + ".bias");
  out.matrix = {.type = computed_type(source.dtype, type_),
                .data = source.data,
                .outputs = source.shape[0],
                .inputs = source.shape[1]};
  const std::int64_t bytes = bytes_of(out.matrix.type, out.matrix.outputs, out.matrix.inputs);
  weights_.bytes_per_pass += bytes + static_cast<std::int64_t>(out.bias.size() * sizeof(float));
  if (out.matrix.type == stored_type(source.dtype)) return {};
  if (out.matrix.type == WeightType::kBf16) weights_.arithmetic = "bf16";
  return convert(source, out.matrix);
}

std::vector<float> CpuWeightsLoader::load_vector(const std::string& name) {
  const TensorView& source = weights_.files->weights.at(name);
  std::vector<float> values(static_cast<std::size_t>(source.num_elements()));
  widen(source, 0, values);
  weights_.bytes_per_pass += static_cast<std::int64_t>(values.size() * sizeof(float));
  return values;
}

// Fills matrix.data (and scales) with the source in matrix.type.
Status CpuWeightsLoader::convert(const TensorView& source, WeightMatrix& matrix) {
  OUTRIDER_ASSIGN_OR_RETURN(
      AnonymousMemory memory,
      AnonymousMemory::make(bytes_of(matrix.type, matrix.outputs, matrix.inputs),
                            "a converted weight matrix", "a smaller model"));
  matrix.data = memory.as<std::byte>();
  if (matrix.type == WeightType::kInt8) {
    const std::int64_t values = matrix.outputs * int8_blocks(matrix.inputs) * kInt8Block;
    matrix.scales = reinterpret_cast<const std::uint16_t*>(memory.as<std::byte>() + values);
  }
  weights_.converted.push_back(std::move(memory));
  // In slices, so that a large source never lies in memory whole.
  const std::int64_t row_bytes =
      matrix.inputs * static_cast<std::int64_t>(dtype_size(source.dtype));
  const std::int64_t slice = std::max<std::int64_t>(kSliceBytes / row_bytes, 1);
  for (std::int64_t begin = 0; begin < matrix.outputs; begin += slice) {
    const Outputs rows{begin, std::min(begin + slice, matrix.outputs)};
    convert_rows(source, matrix, rows);
    forget_pages(source.data + rows.begin * row_bytes, (rows.end - rows.begin) * row_bytes);
  }
  bytes_read_ += static_cast<std::int64_t>(source.num_bytes);
  if (progress_) progress_(bytes_read_, weights_.files->weights.num_bytes());
  return {};
}

void CpuWeightsLoader::convert_rows(const TensorView& source, const WeightMatrix& matrix,
                                    Outputs rows) {
  // The memory is ours, and not yet seen by anybody else.
  auto* data = static_cast<std::byte*>(const_cast<void*>(matrix.data));
  auto* scales = const_cast<std::uint16_t*>(matrix.scales);
  const std::int64_t inputs = matrix.inputs;
  const std::int64_t blocks = int8_blocks(inputs);
  const std::int64_t row_bytes = inputs * static_cast<std::int64_t>(dtype_size(source.dtype));
  pool_.parallel_for(rows.end - rows.begin, 8, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(inputs));
    for (std::int64_t n = rows.begin + begin; n < rows.begin + end; ++n) {
      if (matrix.type == WeightType::kInt8) {
        kernels_.quantize_weights(source.data + n * row_bytes, stored_type(source.dtype), inputs,
                                  reinterpret_cast<std::int8_t*>(data) + n * blocks * kInt8Block,
                                  scales + n * blocks * kInt8BlockGroups);
      } else {
        widen(source, n * inputs, row);
        std::transform(row.begin(), row.end(), reinterpret_cast<std::uint16_t*>(data) + n * inputs,
                       to_bf16);
      }
    }
  });
}

}  // namespace outrider
