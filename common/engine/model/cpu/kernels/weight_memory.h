// The memory of a weight matrix.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider {

// Bytes of the matrix with its scales; data is not read.
std::int64_t bytes_of(const WeightMatrix& matrix);

// The matrix's memory.
std::span<const std::byte> memory_of(const WeightMatrix& matrix);

// Bytes that pad rows to whole groups and outputs to whole panels: values and scales without a
// weight.
std::int64_t padding_of(const WeightMatrix& matrix);

}  // namespace outrider
