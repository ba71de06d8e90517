// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/kernels/kernels.h"
#include "common/engine/model/cuda/kernels/quantized_products.h"

namespace outrider::cuda {

void multiply(const Product* products, int count, const MatmulInput& x, Stream stream) {
  if (products[0].weights.type != WeightType::kQuantized) {
    return multiply_lanes(products, count, x, stream);
  }
  multiply_quantized(products, count, x, {}, stream);
}

void multiply_quantized(const Product* products, int count, const MatmulInput& x,
                        const ProductChoice& choice, Stream stream) {
  const QuantFormat& format = products[0].weights.format;
  const int most = format.scale_group == 16 ? 16 : 32;  // rows that few_rows takes at once
  // More rows than eight fill the multiprocessors by themselves if there are many outputs.
  constexpr std::int64_t kManyOutputs = 8192;
  std::int64_t outputs = 0;
  for (int i = 0; i < count; ++i) outputs += products[i].weights.outputs;
  ProductChoice by = choice;
  if (by.row_tiles == 0 && x.rows <= (outputs < kManyOutputs ? most : 8)) {
    by.row_tiles = x.rows <= 8 ? 1 : x.rows <= 16 ? 2 : 4;
  }
  if (by.row_tiles == 0 || by.row_tiles > most / 8) {
    return multiply_many_rows(products, count, x, by.row_tiles / 8, stream);
  }
  if (by.depth == 0) by.depth = format.bits == 4 ? 2 : 1;
  multiply_few_rows(products, count, x, by, stream);
}

}  // namespace outrider::cuda
