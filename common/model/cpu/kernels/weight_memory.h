// How much memory a weight matrix takes.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/model/cpu/kernels/kernels.h"

namespace outrider {

// Of the matrix with its scales; data is not read.
std::int64_t bytes_of(const WeightMatrix& matrix);

// Where it lies.
std::span<const std::byte> memory_of(const WeightMatrix& matrix);

// How many bytes of it fill rows up to whole groups and outputs up to whole panels: values and
// scales that no weight has.
std::int64_t padding_of(const WeightMatrix& matrix);

}  // namespace outrider
