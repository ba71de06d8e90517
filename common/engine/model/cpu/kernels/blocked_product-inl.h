// Products of several rows with f32, bf16 or f16 weights, block by block.
//
// A block is some columns of weights and some elements of each. In place, blocks are processed one
// after the other for all rows: weights are read from memory once. For many rows, the blocks of
// some columns are first widened, then used by one tile of rows after the other: their sums stay in
// L1 until they are complete. In both cases the sixteen lanes of a sum take their elements in
// order, so the bits are those of a single row (docs/row-invariance.md).
//
// Included inside the namespace and the attributes of a file that is compiled once per instruction
// set, after lanes-inl.h and store_output-inl.h. SPDX-License-Identifier: Apache-2.0

// A tile is some rows of activations by some columns of weights. With many rows the parts of the
// lanes are computed one after the other: more sums fit the registers, and they need fewer loads.
constexpr std::size_t kTileRows = 6;
#if HWY_TARGET == HWY_AVX2
constexpr std::size_t kTileColumns = 2;
#else
constexpr std::size_t kTileColumns = 4;
#endif
// Parts of the lanes that a tile of so many rows computes together.
constexpr std::size_t parts_together(std::size_t rows) {
  std::size_t together = kParts;
  while (together > 1 && together * rows > kTileRows) together /= 2;
  return together;
}
// Columns of a block, and elements of each: a tile's activations stay in L1 during the block, its
// weights in L2.
constexpr std::size_t kBlockColumns = 32;
constexpr std::size_t kBlockElements = 512;
// With fewer rows than a tile has, blocks have more elements, so that memory is read in longer
// pieces.
constexpr std::size_t kTileElements = kTileRows * kBlockElements;
// With more rows than these, columns are widened once; measured, except NEON's.
constexpr std::size_t kInPlaceRows = HWY_TARGET == HWY_AVX3 ? 80 : HWY_TARGET == HWY_AVX2 ? 36 : 6;

// A tile's weights in place, from one part of the lanes on.
template <class T>
struct WeightsInPlace {
  const T* columns[kTileColumns];
  const T* next[kTileColumns];  // columns read after this tile

  HWY_INLINE WeightsInPlace of_part(std::size_t part) const {
    WeightsInPlace weights = *this;
    for (const T*& column : weights.columns) column += part * kPartLanes;
    return weights;
  }
  HWY_INLINE Part load(std::size_t column, std::size_t step, std::size_t part) const {
    return load_part(columns[column], step * kLanes + part * kPartLanes);
  }
  HWY_INLINE void prefetch_next(std::size_t step) const {
    if (step * kLanes * sizeof(T) % kCacheLine != 0) return;
    for (const T* column : next) prefetch(column + step * kLanes, kCacheLine);
  }
};

// The same, widened: [parts][steps][columns of the tile][lanes of a part].
struct WidenedWeights {
  const float* values;
  std::size_t part_size;  // floats

  HWY_INLINE WidenedWeights of_part(std::size_t part) const {
    return {values + part * part_size, part_size};
  }
  HWY_INLINE Part load(std::size_t column, std::size_t step, std::size_t part) const {
    const float* const from = values + part * part_size;
    return hn::LoadU(PartTag(), from + (step * kTileColumns + column) * kPartLanes);
  }
  HWY_INLINE void prefetch_next(std::size_t) const {}
};

// The sums of a row of a tile: [columns of the tile][16 lanes], floats.
inline constexpr std::size_t kTileRowSums = kTileColumns * kLanes;

// Some elements of a part of the weights, in steps of 16; whole ones, and perhaps a partial one,
// which is filled with zeros.
struct Block {
  const WeightMatrix& part;
  std::size_t first;  // element of the part
  std::size_t k;      // element of a row of activations
  std::size_t steps;
  std::size_t whole_steps;
};

// How a row of weights or activations is cut into blocks: each lies in one part of the weights.
struct Blocks {
  std::span<const WeightMatrix> parts;
  std::size_t padded;    // elements of a row, up to whole steps
  std::size_t elements;  // of a block at most, whole steps

  Blocks(const WeightMatrix& weights, std::size_t rows)
      : parts(parts_of(weights)),
        padded(static_cast<std::size_t>(pad_to_lanes(weights.inputs))),
        elements(kTileElements / std::min(rows, kTileRows) / kLanes * kLanes) {}

  template <class F>
  HWY_INLINE void for_each(const F& f) const {
    std::size_t k = 0;
    for (const WeightMatrix& part : parts) {
      const auto inputs = static_cast<std::size_t>(part.inputs);
      for (std::size_t first = 0; first < inputs; first += elements) {
        const std::size_t count = std::min(elements, inputs - first);
        const std::size_t steps = (count + kLanes - 1) / kLanes;
        f(Block{part, first, k, steps, count / kLanes});
        k += steps * kLanes;
      }
    }
  }
};

// Activations in the order in which tiles read them, in thread-local memory: rows at a distance of
// a power of two would compete for the same cache sets. For each tile of rows and each block:
// [parts][steps][rows of the tile][lanes of a part].
class PackedActivations {
 public:
  PackedActivations(const MatmulInput& x, const Blocks& blocks)
      : padded_(blocks.padded), rows_(static_cast<std::size_t>(x.rows)) {
    static thread_local AlignedBuffer<float> buffer;
    static thread_local std::uint64_t number = 0;  // number of the input in the buffer
    buffer.grow(rows_ * blocks.padded);
    values_ = buffer.data();
    if (x.number != 0 && x.number == number) return;
    number = x.number;
    const PartTag d;
    const auto stride = static_cast<std::size_t>(x.stride);
    float* to = buffer.data();
    for_each_tile([&](std::size_t row, std::size_t count) {
      blocks.for_each([&](const Block& block) {
        for (std::size_t p = 0; p < kParts; ++p) {
          const float* from = x.values + row * stride + block.k + p * kPartLanes;
          for (std::size_t s = 0; s < block.steps; ++s, from += kLanes) {
            for (std::size_t r = 0; r < count; ++r, to += kPartLanes) {
              hn::StoreU(hn::LoadU(d, from + r * stride), d, to);
            }
          }
        }
      });
    });
  }

  std::size_t rows() const { return rows_; }

  // f(first row, rows) for each tile; tiles are nearly equal.
  template <class F>
  HWY_INLINE void for_each_tile(const F& f) const {
    const std::size_t tiles = (rows_ + kTileRows - 1) / kTileRows;
    for (std::size_t t = 0; t < tiles; ++t) {
      const std::size_t row = rows_ * t / tiles;
      f(row, rows_ * (t + 1) / tiles - row);
    }
  }

  // A tile's part of the block at k, from a step on.
  const float* tile(std::size_t row, std::size_t rows, std::size_t k, std::size_t step) const {
    return values_ + row * padded_ + rows * (k + step * kPartLanes);
  }

 private:
  std::size_t padded_;
  std::size_t rows_;
  const float* values_;
};

template <std::size_t kRows, class Weights>
HWY_INLINE void add_step(const Weights& weights, std::size_t step, std::size_t part, const float* x,
                         Part (*sums)[kTileColumns]) {
  Part column[kTileColumns];
  OUTRIDER_UNROLL
  for (std::size_t c = 0; c < kTileColumns; ++c) column[c] = weights.load(c, step, part);
  OUTRIDER_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    Part value = hn::LoadU(PartTag(), x + r * kPartLanes);
    keep_in_register(value.raw);
    OUTRIDER_UNROLL
    for (std::size_t c = 0; c < kTileColumns; ++c) {
      sums[r][c] = hn::MulAdd(column[c], value, sums[r][c]);
    }
  }
}

// The place of a tile's sum i of [parts][rows][columns] in [rows, columns, 16 lanes].
template <std::size_t kRows>
constexpr std::size_t place_of(std::size_t i) {
  return i / kTileColumns / kRows * kPartLanes + i / kTileColumns % kRows * kTileRowSums +
         i % kTileColumns * kLanes;
}

// One use of a tile.
struct TileTurn {
  bool reads_memory;  // its weights come from there
  bool begins_sums;   // which are otherwise added to
};

// kept: some parts of a tile's sums. x_part: floats from part to part of the activations.
template <std::size_t kRows, std::size_t kTogether, class Weights>
HWY_NOINLINE void add_tile(Weights weights, const float* x, std::size_t x_part, std::size_t steps,
                           TileTurn turn, float* kept) {
  const PartTag d;
  constexpr std::size_t kSums = kTogether * kRows * kTileColumns;
  Part sums[kTogether][kRows][kTileColumns];
  OUTRIDER_UNROLL
  for (std::size_t i = 0; i < kSums; ++i) {
    Part& sum = sums[i / kTileColumns / kRows][i / kTileColumns % kRows][i % kTileColumns];
    sum = hn::Zero(d);
    if (!turn.begins_sums) sum = hn::LoadU(d, kept + place_of<kRows>(i));
  }
  for (std::size_t s = 0; s < steps; ++s, x += kRows * kPartLanes) {
    if (turn.reads_memory) weights.prefetch_next(s);
    OUTRIDER_UNROLL
    for (std::size_t p = 0; p < kTogether; ++p) {
      add_step<kRows>(weights, s, p, x + p * x_part, sums[p]);
    }
  }
  OUTRIDER_UNROLL
  for (std::size_t i = 0; i < kSums; ++i) {
    hn::StoreU(sums[i / kTileColumns / kRows][i / kTileColumns % kRows][i % kTileColumns], d,
               kept + place_of<kRows>(i));
  }
}

// A tile of `rows` rows, at most kRows, part by part: `steps` of the block's x_steps.
template <std::size_t kRows, class Weights>
HWY_INLINE void add_rows(const Weights& weights, const float* x, std::size_t x_steps,
                         std::size_t rows, std::size_t steps, TileTurn turn, float* kept) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return add_rows<kRows - 1>(weights, x, x_steps, rows, steps, turn, kept);
  }
  constexpr std::size_t kTogether = parts_together(kRows);
  const std::size_t x_part = x_steps * kRows * kPartLanes;
  for (std::size_t p = 0; p < kParts; p += kTogether) {
    add_tile<kRows, kTogether>(weights.of_part(p), x + p * x_part, x_part, steps,
                               {turn.reads_memory && p == 0, turn.begins_sums},
                               kept + p * kPartLanes);
  }
}

// The last elements of a column as a whole step, filled with zeros.
template <class T>
HWY_INLINE void pad(const T* from, std::size_t count, T* to) {
  std::memset(to, 0, kLanes * sizeof(T));
  std::memcpy(to, from, count * sizeof(T));
}

// One step of a column's widened weights, of `steps`.
template <class T>
HWY_INLINE void widen_step(const T* from, std::size_t step, std::size_t steps, float* to) {
  for (std::size_t p = 0; p < kParts; ++p) {
    hn::StoreU(load_part(from, p * kPartLanes), PartTag(),
               to + (p * steps + step) * kTileColumns * kPartLanes);
  }
}

template <class T>
class BlockedProduct {
 public:
  BlockedProduct(const WeightMatrix& weights, const MatmulInput& x)
      : blocks_(weights, static_cast<std::size_t>(x.rows)),
        x_(x, blocks_),
        is_widened_(x.rows > static_cast<std::int64_t>(kInPlaceRows)) {
    static thread_local AlignedBuffer<float> widened, sums;
    if (is_widened_) widened.grow(kBlockColumns * blocks_.padded);
    sums.grow(x_.rows() * kBlockColumns * kLanes);
    widened_ = widened.data();
    sums_ = sums.data();
  }

  void run(Outputs part, const MatmulOutput& y) {
    for (std::int64_t n = part.begin; n < part.end; n += kBlockColumns) {
      const Outputs columns{n, std::min<std::int64_t>(n + kBlockColumns, part.end)};
      if (is_widened_) {
        multiply_widened(columns);
      } else {
        blocks_.for_each([&](const Block& block) { multiply_in_place(columns, block); });
      }
      store(columns, y);
    }
  }

 private:
  // Column c from the block on; beyond the last it is the last again, and the result is ignored.
  static const T* column(Outputs columns, std::size_t c, const Block& block) {
    const std::int64_t n = std::min(columns.begin + static_cast<std::int64_t>(c), columns.end - 1);
    return static_cast<const T*>(block.part.data) + n * block.part.row_inputs() + block.first;
  }

  // Columns c .. of the block; the next tile to be read is beside them, or the first of what
  // follows the block.
  WeightsInPlace<T> weights_at(Outputs columns, std::size_t c, const Block& block) const {
    const bool is_last = columns.begin + static_cast<std::int64_t>(c + kTileColumns) >= columns.end;
    const std::size_t next = is_last ? 0 : c + kTileColumns;
    const auto inputs = static_cast<std::size_t>(block.part.inputs);
    const std::size_t ahead =
        is_last ? std::min(blocks_.elements, inputs - 1 - block.first) : std::size_t{0};
    WeightsInPlace<T> weights;
    for (std::size_t i = 0; i < kTileColumns; ++i) {
      weights.columns[i] = column(columns, c + i, block);
      weights.next[i] = column(columns, next + i, block) + ahead;
    }
    return weights;
  }

  void multiply_in_place(Outputs columns, const Block& block) {
    const auto count = static_cast<std::size_t>(columns.end - columns.begin);
    const std::size_t whole = block.whole_steps;
    for (std::size_t c = 0; c < count; c += kTileColumns) {
      WeightsInPlace<T> weights = weights_at(columns, c, block);
      if (whole > 0) add_tiles(weights, c, block, 0, whole);
      if (whole == block.steps) continue;
      T last[kTileColumns][kLanes];
      for (std::size_t i = 0; i < kTileColumns; ++i) {
        pad(weights.columns[i] + whole * kLanes, last_elements(block), last[i]);
        weights.columns[i] = weights.next[i] = last[i];
      }
      add_tiles(weights, c, block, whole, 1);
    }
  }

  // The number of elements in a partial step.
  static std::size_t last_elements(const Block& block) {
    return static_cast<std::size_t>(block.part.inputs) - block.first - block.whole_steps * kLanes;
  }

  // All columns of a block, including the repeated ones beyond the last.
  void multiply_widened(Outputs columns) {
    blocks_.for_each([&](const Block& block) { widen_block(columns, block); });
    x_.for_each_tile([&](std::size_t row, std::size_t rows) {
      blocks_.for_each([&](const Block& block) { add_widened(row, rows, block); });
    });
  }

  void widen_block(Outputs columns, const Block& block) {
    for (std::size_t c = 0; c < kBlockColumns; ++c) {
      float* to = widened_ + block.k * kBlockColumns +
                  c / kTileColumns * kTileColumns * block.steps * kLanes +
                  c % kTileColumns * kPartLanes;
      widen_column(column(columns, c, block), block, to);
    }
  }

  void add_widened(std::size_t row, std::size_t rows, const Block& block) {
    const std::size_t steps = block.steps;
    const float* const x = x_.tile(row, rows, block.k, 0);
    for (std::size_t c = 0; c < kBlockColumns; c += kTileColumns) {
      const WidenedWeights weights{widened_ + block.k * kBlockColumns + c * steps * kLanes,
                                   steps * kTileColumns * kPartLanes};
      // Activations are one stream; the next ones are prefetched column by column.
      prefetch(x + rows * (steps * kLanes + c * steps * kLanes / kBlockColumns),
               rows * kTileColumns * steps * kLanes / kBlockColumns * sizeof(float));
      add_rows<kTileRows>(weights, x, steps, rows, steps, {false, block.k == 0}, sums_of(row, c));
    }
  }

  HWY_INLINE void widen_column(const T* from, const Block& block, float* to) const {
    const std::size_t steps = block.steps, whole = block.whole_steps;
    prefetch(from + blocks_.elements, blocks_.elements * sizeof(T));
    for (std::size_t s = 0; s < whole; ++s) widen_step(from + s * kLanes, s, steps, to);
    if (whole == steps) return;
    T last[kLanes];
    pad(from + whole * kLanes, last_elements(block), last);
    widen_step(last, whole, steps, to);
  }

  // All rows by the columns of a tile, which begins at column c: `steps` of the block, from step
  // `first` on.
  template <class Weights>
  HWY_INLINE void add_tiles(const Weights& weights, std::size_t c, const Block& block,
                            std::size_t first, std::size_t steps) {
    x_.for_each_tile([&](std::size_t row, std::size_t rows) {
      add_rows<kTileRows>(weights, x_.tile(row, rows, block.k, first), block.steps, rows, steps,
                          {row == 0, block.k == 0 && first == 0}, sums_of(row, c));
    });
  }

  // The sums of the tile of columns that begins at column c, from that row on.
  float* sums_of(std::size_t row, std::size_t c) const {
    return sums_ + (c / kTileColumns * x_.rows() + row) * kTileRowSums;
  }

  // Folds columns beyond the last too, and ignores the result.
  void store(Outputs columns, const MatmulOutput& y) const {
    const auto count = static_cast<std::size_t>(columns.end - columns.begin);
    for (std::size_t row = 0; row < x_.rows(); ++row) {
      float out[kBlockColumns];
      for (std::size_t c = 0; c < count; c += 4) {
        Quad folded[4];
        for (std::size_t i = 0; i < 4; ++i) {
          const std::size_t in_tile = i % kTileColumns;
          folded[i] = fold(load_lanes(sums_of(row, c + i - in_tile) + in_tile * kLanes));
        }
        hn::StoreU(sum_quads(folded[0], folded[1], folded[2], folded[3]), QuadTag(), out + c);
      }
      for (std::int64_t n = columns.begin; n < columns.end; ++n) {
        store_output(y, static_cast<std::int64_t>(row), n, out[n - columns.begin]);
      }
    }
  }

  const Blocks blocks_;
  const PackedActivations x_;
  const bool is_widened_;
  // The thread's memory.
  float* widened_;
  float* sums_;  // [tiles of columns][rows][columns of the tile][16 lanes]
};
