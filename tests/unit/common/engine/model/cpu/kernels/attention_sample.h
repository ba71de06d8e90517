// Keys, values and queries for attention, and the result of a plain f64 sum.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider {

// 0, 1, .. count - 1.
std::vector<std::int32_t> slots_in_order(std::int32_t count);

// Keys and values of one head of two in pages, and queries.
struct AttentionSample {
  std::int64_t head_dim, slots, queries;
  bool is_bf16 = false;
  std::int64_t stride = pad_to_lanes(head_dim);
  std::vector<float> keys = padded(slots, 11), values = padded(slots, 12);
  std::vector<float> query = padded(queries, 13);

  std::vector<float> padded(std::int64_t rows, std::uint32_t seed) const;

  // Rows that see [begins[r], paths[r].size()), all computed together: [rows, queries, stride].
  std::vector<float> run(const Kernels& kernels,
                         const std::vector<std::vector<std::int32_t>>& paths,
                         const std::vector<std::int64_t>& begins) const;

  double reference(const std::vector<std::int32_t>& path, std::int64_t begin, std::int64_t q,
                   std::int64_t element) const;
};

}  // namespace outrider
