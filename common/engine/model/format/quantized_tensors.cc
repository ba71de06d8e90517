// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/quantized_tensors.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

namespace outrider {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr const char* kFetchAgain = ". Remedy: download weights and config.json of one model again";
// The largest scale; times a zero point it is still finite.
constexpr float kMaxScale = 1e30f;

std::int64_t divided_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

std::span<const std::byte> bytes_of(const TensorView& tensor) {
  return {tensor.data, tensor.num_bytes};
}

class MatrixTaker final {
 public:
  MatrixTaker(std::string base, const StoredQuantization& quantization, TensorMap& left)
      : base_(std::move(base)), quantization_(quantization), left_(left) {}

  Status take(const StoredTensor& stored) {
    matrix.method = quantization_.method;
    matrix.inputs = stored.parts.front().shape[1];
    matrix.outputs = stored.shape[stored.transposed ? 1 : 0];
    matrix.stored_outputs = matrix.outputs;
    OUTRIDER_RETURN_IF_ERROR(quantization_.method == QuantMethod::kFp8 ? take_fp8(stored)
                                                                       : take_integers());
    return check_scales();
  }

  QuantizedMatrix matrix;

 private:
  using Shape = std::vector<std::int64_t>;

  std::string called(const std::string& suffix) const { return "tensor " + base_ + suffix; }

  Result<TensorView> take_any(const std::string& suffix) {
    const auto found = left_.find(base_ + suffix);
    if (found == left_.end()) {
      return data_loss(called(suffix) + " is missing: " + base_ + " is quantised by " +
                       std::string(to_string(quantization_.method)) + kFetchAgain);
    }
    TensorView tensor = found->second;
    left_.erase(found);
    return tensor;
  }

  Result<TensorView> take_words(const std::string& suffix, const Shape& shape) {
    OUTRIDER_ASSIGN_OR_RETURN(TensorView tensor, take_any(suffix));
    if (tensor.dtype != DType::kI32) {
      return unimplemented(called(suffix) + " has dtype " + std::string(to_string(tensor.dtype)) +
                           "; supported is I32" + kFetchAgain);
    }
    OUTRIDER_RETURN_IF_ERROR(check_shape(suffix, tensor, shape));
    return tensor;
  }

  Status check_shape(const std::string& suffix, const TensorView& tensor,
                     const Shape& shape) const {
    if (tensor.shape == shape) return {};
    return data_loss(called(suffix) + " has shape " + shape_text(tensor.shape) +
                     "; config.json with its quantization_config requires " + shape_text(shape) +
                     kFetchAgain);
  }

  Status take_scales(const std::string& suffix, const TensorView& tensor) {
    if (block_elements(tensor.dtype) != 1 || needs_scales(tensor.dtype)) {
      return unimplemented(called(suffix) + " has dtype " + std::string(to_string(tensor.dtype)) +
                           "; supported are F32, F16 and BF16" + kFetchAgain);
    }
    matrix.scales = bytes_of(tensor);
    matrix.scale_dtype = tensor.dtype;
    return {};
  }

  Status take_integers() {
    const bool is_awq = quantization_.method == QuantMethod::kAwq;
    const std::int64_t bits = quantization_.bits;
    matrix.bits = quantization_.bits;
    matrix.zeros_less_one = quantization_.zeros_less_one;
    matrix.group_size = quantization_.group_size > 0 ? quantization_.group_size : matrix.inputs;
    matrix.num_groups = divided_up(matrix.inputs, matrix.group_size);
    OUTRIDER_RETURN_IF_ERROR(check_sizes(is_awq));
    const Shape words = is_awq ? Shape{matrix.inputs, matrix.outputs / 8}
                               : Shape{matrix.inputs * bits / 32, matrix.outputs};
    OUTRIDER_ASSIGN_OR_RETURN(const TensorView numbers, take_words(".qweight", words));
    OUTRIDER_ASSIGN_OR_RETURN(
        const TensorView zeros,
        take_words(".qzeros", {matrix.num_groups, matrix.outputs * bits / 32}));
    OUTRIDER_ASSIGN_OR_RETURN(const TensorView scales, take_any(".scales"));
    OUTRIDER_RETURN_IF_ERROR(check_shape(".scales", scales, {matrix.num_groups, matrix.outputs}));
    matrix.numbers = bytes_of(numbers);
    matrix.zeros = bytes_of(zeros);
    OUTRIDER_RETURN_IF_ERROR(take_scales(".scales", scales));
    if (!is_awq) OUTRIDER_RETURN_IF_ERROR(take_group_ids());
    matrix.is_symmetric = all_zeros_in_the_middle();
    return {};
  }

  // Words hold whole numbers of values.
  Status check_sizes(bool is_awq) const {
    const auto refuse = [this](const char* what, std::int64_t size, const std::string& why) {
      return data_loss(base_ + ": " + std::to_string(size) + " " + what + ", but " + why +
                       kFetchAgain);
    };
    if (matrix.outputs * matrix.bits % 32 != 0) {
      return refuse("outputs", matrix.outputs, "zero points are stored in whole words of 32 bits");
    }
    if (!is_awq && matrix.inputs * matrix.bits % 32 != 0) {
      return refuse("inputs", matrix.inputs, "inputs are stored in whole words of 32 bits");
    }
    if (is_awq && matrix.inputs % matrix.group_size != 0) {
      return refuse(
          "inputs", matrix.inputs,
          "group_size is " + std::to_string(matrix.group_size) + ", which must divide them");
    }
    return {};
  }

  // Their order may be the inputs' own.
  Status take_group_ids() {
    if (!left_.contains(base_ + ".g_idx") && !quantization_.needs_group_ids) return {};
    OUTRIDER_ASSIGN_OR_RETURN(const TensorView ids, take_words(".g_idx", {matrix.inputs}));
    matrix.group_ids = bytes_of(ids);
    bool in_order = true;
    for (std::int64_t k = 0; k < matrix.inputs; ++k) {
      const std::int64_t group = matrix.group_of(k);
      if (group >= matrix.num_groups) {
        return data_loss(called(".g_idx") + ", element " + std::to_string(k) + ", is " +
                         std::to_string(static_cast<std::int32_t>(group)) +
                         ", must be a group from 0 to " + std::to_string(matrix.num_groups - 1) +
                         kFetchAgain);
      }
      in_order = in_order && group == k / matrix.group_size;
    }
    if (in_order) matrix.group_ids = {};
    return {};
  }

  bool all_zeros_in_the_middle() const {
    for (std::int64_t group = 0; group < matrix.num_groups; ++group) {
      for (std::int64_t n = 0; n < matrix.outputs; ++n) {
        if (matrix.zero(n, group) != 1 << (matrix.bits - 1)) return false;
      }
    }
    return true;
  }

  Status take_fp8(const StoredTensor& stored) {
    if (stored.transposed) {
      return unimplemented(base_ +
                           ": matrices of this family are not supported in FP8. Remedy: "
                           "the model that is not quantised");
    }
    OUTRIDER_ASSIGN_OR_RETURN(const TensorView numbers, take_any(std::string(kWeight)));
    OUTRIDER_RETURN_IF_ERROR(check_shape(std::string(kWeight), numbers, stored.shape));
    matrix.numbers = bytes_of(numbers);
    const bool has_block = quantization_.block_rows > 0;
    matrix.group_outputs = has_block ? quantization_.block_rows : 1;
    matrix.group_size = has_block ? quantization_.block_columns : matrix.inputs;
    matrix.num_groups = divided_up(matrix.inputs, matrix.group_size);
    const bool is_inverse = left_.contains(base_ + ".weight_scale_inv");
    const std::string suffix = is_inverse ? ".weight_scale_inv" : ".weight_scale";
    OUTRIDER_ASSIGN_OR_RETURN(const TensorView scales, take_any(suffix));
    const Shape blocks{divided_up(matrix.outputs, matrix.group_outputs), matrix.num_groups};
    if (!has_block && scales.num_elements() == 1) {
      matrix.group_outputs = matrix.outputs;
    } else if (has_block || scales.shape != Shape{matrix.outputs}) {
      OUTRIDER_RETURN_IF_ERROR(check_shape(suffix, scales, blocks));
    }
    return take_scales(suffix, scales);
  }

  // Checks the scales of every group.
  Status check_scales() const {
    const bool by_block = matrix.method == QuantMethod::kFp8;
    for (std::int64_t n = 0; n < matrix.outputs; n += by_block ? matrix.group_outputs : 1) {
      for (std::int64_t group = 0; group < matrix.num_groups; ++group) {
        const float scale = matrix.scale(n, group);
        if (std::fabs(scale) <= kMaxScale) continue;
        return data_loss("the scale of " + base_ + " for output " + std::to_string(n) + ", group " +
                         std::to_string(group) + ", is " + std::to_string(scale) +
                         ", must be a number up to 1e30" + kFetchAgain);
      }
    }
    return {};
  }

  const std::string base_;  // "model.layers.0.self_attn.q_proj"
  const StoredQuantization& quantization_;
  TensorMap& left_;
};

std::vector<std::pair<std::string, TensorView>> split_quantized(const StoredTensor& stored,
                                                                const QuantizedMatrix& matrix,
                                                                DType dtype) {
  std::vector<std::pair<std::string, TensorView>> views;
  std::int64_t first = 0;
  const auto row_bytes = static_cast<std::int64_t>(matrix.numbers.size()) / matrix.outputs;
  for (const TensorSpec& part : stored.parts) {
    const std::int64_t rows = part.shape[0];
    views.emplace_back(
        part.name,
        TensorView{.dtype = dtype,
                   .shape = part.shape,
                   .data = matrix.numbers.data(),
                   .num_bytes = static_cast<std::size_t>(row_bytes * rows),
                   .quantized = std::make_shared<const QuantizedMatrix>(matrix.rows(first, rows))});
    first += rows;
  }
  return views;
}

}  // namespace

Result<std::vector<std::pair<std::string, TensorView>>> take_quantized(
    const StoredTensor& stored, const std::string& name, const StoredQuantization& quantization,
    TensorMap& left) {
  std::vector<std::pair<std::string, TensorView>> none;
  if (!name.ends_with(kWeight) || stored.parts.front().shape.size() != 2) return none;
  const std::string base = name.substr(0, name.size() - kWeight.size());
  const bool has_words = left.contains(base + ".qweight");
  const auto weight = left.find(name);
  const bool has_e4m3 = weight != left.end() && weight->second.dtype == DType::kF8E4M3;
  if (!has_words && !has_e4m3) return none;
  const bool is_fp8 = quantization.method == QuantMethod::kFp8;
  if (quantization.method == QuantMethod::kNone || (has_words && is_fp8) ||
      (!has_words && !is_fp8)) {
    return data_loss("tensor " + (has_words ? base + ".qweight" : name) +
                     " is quantised, but not as quantization_config of config.json says, which " +
                     (quantization.method == QuantMethod::kNone
                          ? "is missing"
                          : "has " + std::string(to_string(quantization.method))) +
                     kFetchAgain);
  }
  MatrixTaker taker(base, quantization, left);
  OUTRIDER_RETURN_IF_ERROR(taker.take(stored));
  return split_quantized(stored, taker.matrix, has_words ? DType::kI32 : DType::kF8E4M3);
}

bool is_without_effect(const std::string& name, const TensorView& tensor,
                       const StoredQuantization& quantization) {
  if (quantization.method == QuantMethod::kFp8) return name.ends_with(".input_scale");
  return quantization.method == QuantMethod::kGptq && name.ends_with(".bias") &&
         std::ranges::all_of(bytes_of(tensor), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace outrider
