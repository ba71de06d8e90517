// SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/kernels.h"
#include "common/model/cuda/quantized_products.h"

namespace outrider::cuda {

void multiply(const Product* products, int count, const MatmulInput& x, Stream stream) {
  if (products[0].weights.type != WeightType::kQuantized) {
    return multiply_lanes(products, count, x, stream);
  }
  multiply_quantized(products, count, x, {}, stream);
}

void multiply_quantized(const Product* products, int count, const MatmulInput& x,
                        const ProductChoice& choice, Stream stream) {
  const bool has_halves = products[0].weights.format.scale_group == 16;
  const int most = has_halves ? 16 : 32;  // rows that few_rows takes at once
  ProductChoice by = choice;
  if (by.row_tiles == 0) by.row_tiles = x.rows <= 8 ? 1 : x.rows <= 16 ? 2 : x.rows <= most ? 4 : 8;
  if (by.depth == 0) by.depth = products[0].weights.format.bits == 4 ? 2 : 1;
  if (by.row_tiles > most / 8) return multiply_many_rows(products, count, x, stream);
  multiply_few_rows(products, count, x, by, stream);
}

}  // namespace outrider::cuda
