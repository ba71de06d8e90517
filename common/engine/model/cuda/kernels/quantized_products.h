// The ways in which quantised products are cut among blocks and warps; kernels.h chooses. Every way
// gives the same bits.
//
// Thread rule and ownership: as kernels.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/engine/model/cuda/kernels/kernels.h"

namespace outrider::cuda {

// choice: row_tiles 1, 2 or (with one scale a group) 4; depth 1, or 2 with one tile of rows and one
// scale a group.
void multiply_few_rows(const Product* products, int count, const MatmulInput& x,
                       const ProductChoice& choice, Stream stream);
// tiles: 1, 2 or 4, of 16 rows of a block; 0: by the number of rows.
void multiply_many_rows(const Product* products, int count, const MatmulInput& x, int tiles,
                        Stream stream);

}  // namespace outrider::cuda
