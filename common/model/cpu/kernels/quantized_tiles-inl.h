// Matrix products of quantised weights and int8 activations, panel by panel.
//
// For each group, in order of k, a row's sum s of an output takes
//
//   s = fma(group's exact integer sum, weight scale * activation scale, s)
//   s = fma(weight minimum, activation scale * sum of activations, s)
//
// the first for each half group if it has a scale of its own, then the second for each scale if
// there are minimums.
//
// 16 outputs are computed side by side, one in each lane. So the bits are the same for every tile,
// register width and instruction set (docs/row-invariance.md).
//
// Included inside the namespace and the attributes of a file that is compiled once per instruction
// set, after group_sums-inl.h and group_tiles-inl.h. SPDX-License-Identifier: Apache-2.0

// Rows multiplied with a panel before the next panel is read: their activations stay in L2.
inline constexpr std::int64_t kBlockRows = 64;

// Prefetch distance in a stream of weights.
inline constexpr std::size_t kAheadBytes = 4096;

// One panel.
struct Panel {
  const std::uint8_t* values;
  const std::byte* scales;
  const std::byte* minimums;  // where the format has them
  bool wide_scales;
  std::uint8_t flip;  // see StepWeights

  // Row `index` of scales or minimums, part p.
  HWY_INLINE Part scale(const std::byte* from, std::size_t index, int p) const {
    const std::size_t at = index * kPanelOutputs + static_cast<std::size_t>(p) * kPartLanes;
    if (wide_scales) return load_part(reinterpret_cast<const float*>(from), at);
    return load_part(reinterpret_cast<const hwy::float16_t*>(from), at);
  }
};

// A row's scale times the sum of its activations, of a group or of half of one.
template <class F>
HWY_INLINE float scaled_sum_of(const std::byte* group, std::size_t half) {
  if constexpr (F::kScales == 1) {
    return read_as<float>(group + offsetof(QuantizedGroup, scaled_sum));
  } else {
    const auto offset = read_as<std::int32_t>(group + offsetof(QuantizedGroup, half_offsets8) +
                                              half * sizeof(std::int32_t));
    const float sum = static_cast<float>(offset) * -0x1p-7f;  // exact: the offset is -128 * sum
    return read_as<float>(group + offsetof(QuantizedGroup, scale)) * sum;
  }
}

// One tile: a panel and some rows.
template <class F, int kRows>
struct QuantizedTile {
  const Panel& panel;
  const std::byte* first;  // the first row
  std::size_t stride;      // bytes from row to row
  std::size_t groups;
  bool is_stream;  // the weights come from memory

  // sums[r]: of row r of the tile, all 16 outputs.
  HWY_INLINE void run(Lanes* sums) const {
    const std::byte* x[kRows];
    OUTRIDER_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r] = zero_lanes();
      x[r] = first + static_cast<std::size_t>(r) * stride;
    }
    const std::uint8_t* values = panel.values;
    for (std::size_t g = 0; g < groups; ++g, values += F::kGroupBytes) {
      if (is_stream) prefetch(values + kAheadBytes, F::kGroupBytes);
      for (std::size_t half = 0; half < F::kScales; ++half) {
        for (int p = 0; p < kParts; p += kTogether) {
          add_half(values + half * F::kHalfBytes, g, half, p, x, sums);
        }
      }
      if constexpr (F::kHasMinimum) {
        for (std::size_t half = 0; half < F::kScales; ++half) add_minimums(g, half, x, sums);
      }
      OUTRIDER_UNROLL
      for (int r = 0; r < kRows; ++r) x[r] += sizeof(QuantizedGroup);
    }
  }

  HWY_INLINE void add_half(const std::uint8_t* values, std::size_t g, std::size_t half, int part,
                           const std::byte* const* x, Lanes* sums) const {
    // Values shared by two parts would be kept in memory between them; reloading them is faster.
    if constexpr (kTogether < kParts) asm volatile("" ::: "memory");
    HalfSums<F, kRows> group;
    group.add(values, panel.flip, half, part, x);
    for (int t = 0; t < kTogether; ++t) {
      const Part weight_scale = panel.scale(panel.scales, g * F::kScales + half, part + t);
      OUTRIDER_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const auto scale = read_as<float>(x[r] + offsetof(QuantizedGroup, scale));
        Part& to = sums[r].part[part + t];
        to = hn::MulAdd(hn::ConvertTo(PartTag(), group.end(r, t)),
                        hn::Mul(weight_scale, hn::Set(PartTag(), scale)), to);
      }
    }
  }

  HWY_INLINE void add_minimums(std::size_t g, std::size_t half, const std::byte* const* x,
                               Lanes* sums) const {
    for (int p = 0; p < kParts; ++p) {
      const Part minimum = panel.scale(panel.minimums, g * F::kScales + half, p);
      OUTRIDER_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const float scaled_sum = scaled_sum_of<F>(x[r], half);
        sums[r].part[p] = hn::MulAdd(minimum, hn::Set(PartTag(), scaled_sum), sums[r].part[p]);
      }
    }
  }
};

// Stores the 16 outputs from n on that are in `part`.
HWY_INLINE void store_panel(const Lanes& sums, std::int64_t row, std::int64_t n, Outputs part,
                            const MatmulOutput& y) {
  if (n >= part.begin && n + kPanelOutputs <= part.end) {
    float* to = y.y + row * y.stride + n;
    Lanes out = sums;
    for (int p = 0; p < kParts; ++p) {
      if (y.bias != nullptr) {
        out.part[p] = hn::Add(out.part[p], hn::LoadU(PartTag(), y.bias + n + p * kPartLanes));
      }
      if (y.add) out.part[p] = hn::Add(hn::LoadU(PartTag(), to + p * kPartLanes), out.part[p]);
    }
    store_lanes(out, to);
    return;
  }
  float values[kPanelOutputs];
  store_lanes(sums, values);
  for (std::int64_t i = std::max(n, part.begin); i < std::min(n + kPanelOutputs, part.end); ++i) {
    store_output(y, row, i, values[i - n]);
  }
}

// A panel and rows of one block.
struct PanelProduct {
  const Panel& panel;
  const MatmulInput& in;
  std::size_t stride;  // bytes from row to row
  std::int64_t n;      // the panel's first output
  Outputs part;
  const MatmulOutput& y;

  template <class F, int kRows>
  HWY_NOINLINE void compute_rows(std::int64_t row, bool is_stream) const {
    Lanes sums[kRows];
    QuantizedTile<F, kRows>{panel, in.quantized + static_cast<std::size_t>(row) * stride, stride,
                            stride / sizeof(QuantizedGroup), is_stream}
        .run(sums);
    for (int r = 0; r < kRows; ++r) store_panel(sums[r], row + r, n, part, y);
  }

  template <class F, int kRows = kTileRows<F::kBits>>
  HWY_INLINE void compute(std::int64_t row, std::int64_t count, bool is_stream) const {
    if constexpr (kRows > 1) {
      if (count < kRows) return compute<F, kRows - 1>(row, count, is_stream);
    }
    compute_rows<F, kRows>(row, is_stream);
  }
};

template <class F>
void multiply_panels(const WeightMatrix& weights, const MatmulInput& in, Outputs part,
                     const MatmulOutput& y) {
  const PanelLayout layout(weights.format, weights.row_inputs());
  const auto stride = static_cast<std::size_t>(quantized_row_bytes(weights.inputs));
  for (std::int64_t first = 0; first < in.rows; first += kBlockRows) {
    const std::int64_t rows = std::min(in.rows - first, kBlockRows);
    // Tiles of nearly equal height: a last tile of one row would unpack the weights for that row
    // alone.
    const std::int64_t tiles = (rows + kTileRows<F::kBits> - 1) / kTileRows<F::kBits>;
    for (std::int64_t i = part.begin / kPanelOutputs; i * kPanelOutputs < part.end; ++i) {
      const std::byte* base = static_cast<const std::byte*>(weights.data) + i * layout.panel_bytes;
      const Panel panel{reinterpret_cast<const std::uint8_t*>(base), base + layout.scales,
                        base + layout.minimums, weights.format.wide_scales,
                        static_cast<std::uint8_t>(weights.format.zero())};
      const PanelProduct product{panel, in, stride, i * kPanelOutputs, part, y};
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t row = rows * t / tiles;
        product.template compute<F>(first + row, rows * (t + 1) / tiles - row, t == 0);
      }
    }
  }
}

template <int kBits, int kScaleGroup>
void multiply_format(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                     const MatmulOutput& y) {
  if (weights.format.has_minimum) {
    return multiply_panels<Format<kBits, kScaleGroup, true>>(weights, x, part, y);
  }
  multiply_panels<Format<kBits, kScaleGroup, false>>(weights, x, part, y);
}

void multiply_quantized(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                        const MatmulOutput& y) {
  const QuantFormat& format = weights.format;
  if (format.has_table) return multiply_panels<Format<4, 32, false, true>>(weights, x, part, y);
  const bool is_half = format.scale_group == 16;
  if (format.bits == 4 && is_half) return multiply_format<4, 16>(weights, x, part, y);
  if (format.bits == 4) return multiply_format<4, 32>(weights, x, part, y);
  if (is_half) return multiply_format<8, 16>(weights, x, part, y);
  multiply_format<8, 32>(weights, x, part, y);
}
