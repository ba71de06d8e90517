// Makes matrices that the kernels compute with of tensors as stored: rounded to bf16, widened to
// f32, or quantised. Blocks that the wanted format holds without loss are taken as they are.
//
// A tensor is read in slices whose pages are handed back, so that a large one never lies in memory
// whole beside its conversion.
//
// Thread rule: one thread calls; the pool's threads work inside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/types.h"
#include "common/model/cpu/anonymous_memory.h"
#include "common/model/cpu/kernels/kernels.h"
#include "common/model/format/tensor_view.h"

namespace outrider {

class WeightConverter final {
 public:
  // kernels and pool outlive this.
  WeightConverter(const Kernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // matrix: all but `data`, which points into the memory returned. Scales become f32 where f16 has
  // not their range (format.wide_scales). chosen: the rows of `source` that are the matrix's;
  // empty: all. Errors: RESOURCE_EXHAUSTED.
  Result<AnonymousMemory> convert(const TensorView& source, WeightMatrix& matrix,
                                  std::span<const TokenId> chosen = {});

 private:
  using RowConverter = std::function<void(std::int64_t output, const float* row)>;
  // Of outputs [begin, end): whole panels, except for the last.
  using RowsConverter = std::function<void(std::int64_t begin, std::int64_t end)>;

  struct Rows {
    const TensorView& tensor;
    std::span<const TokenId> chosen;

    // Of output n.
    std::int64_t row(std::int64_t n) const {
      return chosen.empty() ? n : chosen[static_cast<std::size_t>(n)];
    }
  };

  static Result<AnonymousMemory> allocate(WeightMatrix& matrix);
  void for_all_rows(const Rows& source, const RowsConverter& convert_rows);
  void for_each_row(const Rows& source, const RowConverter& convert_row);
  void copy_blocks(const Rows& source, const WeightMatrix& matrix, std::byte* data);
  void round_rows(const Rows& source, const WeightMatrix& matrix, std::byte* data);
  bool quantize_rows(const Rows& source, const WeightMatrix& matrix, std::byte* data);

  const Kernels& kernels_;
  ThreadPool& pool_;
};

}  // namespace outrider
