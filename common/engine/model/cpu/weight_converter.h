// Converts stored tensors to matrices for the kernels: rounded to bf16, widened to f32, or
// quantised. Blocks that fit the wanted format without loss are copied.
//
// A tensor is read in slices whose pages are released afterwards, so that a large tensor is never
// in memory completely beside its conversion.
//
// Thread rule: one thread calls; the pool's threads work inside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/types.h"
#include "common/engine/model/cpu/anonymous_memory.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {

// Memory of converted matrices, side by side in few large mappings. A small matrix in a mapping of
// its own gets no huge pages from the system, and passes would wait for page tables.
class WeightArena final {
 public:
  // Zero, at a multiple of 64. Errors: RESOURCE_EXHAUSTED.
  Result<std::byte*> take(std::int64_t bytes);
  // Returns what was taken last.
  void give_back(std::byte* taken);
  // Ends what was taken, all of it.
  void clear();

 private:
  std::vector<AnonymousMemory> chunks_;  // the last one has room
  std::int64_t used_ = 0;                // bytes of it
  std::int64_t size_ = 0;
};

class WeightConverter final {
 public:
  // kernels and pool outlive this.
  WeightConverter(const Kernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // matrix: complete except `data`, which is set to memory of `arena`. Scales become f32 where f16
  // lacks the range (format.scales). chosen: the rows of `source` in the matrix; empty: all.
  // on_rows: called now and then with the rows converted so far; a second pass over a matrix begins
  // anew. Errors: RESOURCE_EXHAUSTED.
  using RowsDone = std::function<void(std::int64_t rows)>;
  Status convert(const TensorView& source, WeightMatrix& matrix, WeightArena& arena,
                 std::span<const TokenId> chosen = {}, const RowsDone& on_rows = {});

 private:
  using RowConverter = std::function<void(std::int64_t output, const float* row)>;
  // Converts outputs [begin, end): whole panels, except the last.
  using RowsConverter = std::function<void(std::int64_t begin, std::int64_t end)>;

  struct Rows {
    const TensorView& tensor;
    std::span<const TokenId> chosen;
    const RowsDone& on_rows;

    // The row of `source` for output n.
    std::int64_t row(std::int64_t n) const {
      return chosen.empty() ? n : chosen[static_cast<std::size_t>(n)];
    }
  };

  void for_all_rows(const Rows& source, const RowsConverter& convert_rows);
  void for_each_row(const Rows& source, const RowConverter& convert_row);
  void copy_blocks(const Rows& source, const WeightMatrix& matrix, std::byte* data);
  void copy_groups(const Rows& source, const WeightMatrix& matrix, std::byte* data);
  void round_rows(const Rows& source, const WeightMatrix& matrix, std::byte* data);
  bool quantize_rows(const Rows& source, const WeightMatrix& matrix, std::byte* data);

  const Kernels& kernels_;
  ThreadPool& pool_;
};

}  // namespace outrider
