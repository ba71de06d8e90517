// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pass_products.h"

#include <algorithm>
#include <atomic>

namespace outrider {

Activations::Activations(std::int64_t elements)
    : widest(elements),
      count(elements),
      stride(pad_to_lanes(elements)),
      quantized_bytes(quantized_row_bytes(elements)) {}

void Activations::grow(std::int64_t rows, bool is_quantized) {
  values.grow(static_cast<std::size_t>(rows * pad_to_lanes(widest)));
  if (is_quantized) quantized.grow(static_cast<std::size_t>(rows * quantized_row_bytes(widest)));
}

void Activations::narrow(std::int64_t elements) {
  count = elements;
  stride = pad_to_lanes(elements);
  quantized_bytes = quantized_row_bytes(elements);
}

MatmulInput PassProducts::input(const Activations& x, std::int64_t rows) {
  static std::atomic<std::uint64_t> last{0};
  return {rows, x.stride, x.values.data(), x.quantized.data(), ++last};
}

void PassProducts::quantize(Activations& x, std::int64_t row) const {
  if (!is_quantized_) return;
  kernels_.quantize_row(x.row(row), x.count, x.quantized.data() + row * x.quantized_bytes);
}

void PassProducts::quantize_rows(Activations& x, std::int64_t rows) {
  if (!is_quantized_) return;
  loops_.run(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) quantize(x, r);
  });
}

void PassProducts::multiply(std::span<const Product> products, const MatmulInput& x) {
  std::int64_t total = 0;
  for (const Product& product : products) total += product.weights->matrix.outputs;
  loops_.run(total, kOutputGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;  // output of the current product, within the loop
    for (const Product& product : products) {
      const std::int64_t outputs = product.weights->matrix.outputs;
      const Outputs part{std::max<std::int64_t>(begin - first, 0), std::min(end - first, outputs)};
      if (part.begin < part.end) multiply(product, x, part);
      first += outputs;
    }
  });
}

void PassProducts::multiply(const Product& product, const MatmulInput& x, Outputs part) const {
  const LinearWeights& weights = *product.weights;
  MatmulOutput y = product.y;
  if (!weights.bias.empty()) y.bias = weights.bias.data();
  if (weights.parts.empty()) return kernels_.matmul(weights.matrix, x, part, y);
  if (weights.is_beside()) {
    WeightMatrix whole = weights.matrix;
    whole.parts = weights.parts.data();
    whole.num_parts = std::ssize(weights.parts);
    return kernels_.matmul(whole, x, part, y);
  }
  for (const WeightMatrix& below : weights.parts) {
    const Outputs here{std::max<std::int64_t>(part.begin, 0), std::min(part.end, below.outputs)};
    if (here.begin < here.end) kernels_.matmul(below, x, here, y);
    part = {part.begin - below.outputs, part.end - below.outputs};
    y.y += below.outputs;
    if (y.bias != nullptr) y.bias += below.outputs;
  }
}

}  // namespace outrider
