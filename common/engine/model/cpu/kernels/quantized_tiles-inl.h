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
  const std::byte* data;
  const std::byte* scales;    // these two are not looked at where scales are multiples
  const std::byte* minimums;  // where the format has them
  std::size_t bytes;          // to the next one
  std::size_t groups;
  bool is_f32;        // scales and minimums; else they are f16
  std::uint8_t flip;  // see StepWeights
};

// The scales and minimums of one group after the other: begin_group(), then scale() and minimum()
// of half `half`, part p.
template <class F, bool kHasMultiples = F::kHasMultiples>
struct GroupScales {
  const Panel& panel;
  std::size_t group = 0;

  HWY_INLINE explicit GroupScales(const Panel& of) : panel(of) {}

  // Scales lie behind all of a panel's values, so those of the next panel are prefetched.
  HWY_INLINE void begin_group(std::size_t g, const std::uint8_t*& /*values*/, bool is_stream) {
    group = g;
    if (!is_stream) return;
    const std::size_t row = F::kScales * kPanelOutputs * (panel.is_f32 ? 4 : 2);
    prefetch(panel.scales + panel.bytes + g * row, 1);
    if constexpr (F::kHasMinimum) prefetch(panel.minimums + panel.bytes + g * row, 1);
  }
  HWY_INLINE Part scale(std::size_t half, int p) const { return load(panel.scales, half, p); }
  HWY_INLINE Part minimum(std::size_t half, int p) const { return load(panel.minimums, half, p); }

  HWY_INLINE Part load(const std::byte* from, std::size_t half, int p) const {
    const std::size_t at =
        (group * F::kScales + half) * kPanelOutputs + static_cast<std::size_t>(p) * kPartLanes;
    if (panel.is_f32) return load_part(reinterpret_cast<const float*>(from), at);
    return load_part(reinterpret_cast<const hwy::float16_t*>(from), at);
  }
};

// Multiples: units are widened once for each block, whose values lie behind its header.
template <class F>
struct GroupScales<F, true> {
  static constexpr QuantFormat kFormat{.bits = F::kStoredBits,
                                       .scale_group = kQuantGroup / F::kScales,
                                       .scales = ScaleType::kMultiples,
                                       .has_minimum = F::kHasMinimum};
  static constexpr auto kHeaderBytes = static_cast<std::size_t>(block_header_bytes(kFormat));
  static constexpr std::size_t kGroupMultiples = F::kScales * kPanelOutputs;  // bytes
  Lanes unit, minimum_unit;
  const std::byte* multiples = nullptr;  // of the group's scales

  HWY_INLINE explicit GroupScales(const Panel& /*of*/) {}

  HWY_INLINE void begin_group(std::size_t g, const std::uint8_t*& values, bool is_stream) {
    if (g % kBlockGroups != 0) {
      multiples += kGroupMultiples;
      return;
    }
    if (is_stream) prefetch(values + kAheadBytes, kHeaderBytes);
    const auto* units = reinterpret_cast<const hwy::float16_t*>(values);
    load_units(units, unit);
    if constexpr (F::kHasMinimum) load_units(units + kPanelOutputs, minimum_unit);
    multiples = reinterpret_cast<const std::byte*>(values) + kUnitBytes * (F::kHasMinimum ? 2 : 1);
    values += kHeaderBytes;
  }
  HWY_INLINE Part scale(std::size_t half, int p) const { return load(multiples, half, p, unit); }
  HWY_INLINE Part minimum(std::size_t half, int p) const {
    return load(multiples + kBlockGroups * kGroupMultiples, half, p, minimum_unit);
  }

  static HWY_INLINE void load_units(const hwy::float16_t* from, Lanes& to) {
    for (int p = 0; p < kParts; ++p) {
      to.part[p] = load_part(from, static_cast<std::size_t>(p) * kPartLanes);
    }
  }
  // Exact, as a unit has 11 bits and a multiple 8.
  static HWY_INLINE Part load(const std::byte* from, std::size_t half, int p, const Lanes& by) {
    const hn::Rebind<std::int8_t, PartTag> d8;
    const auto* bytes = reinterpret_cast<const std::int8_t*>(from) + half * kPanelOutputs +
                        static_cast<std::size_t>(p) * kPartLanes;
    const IntPart wide = hn::PromoteTo(IntTag(), hn::LoadU(d8, bytes));
    return hn::Mul(by.part[p], hn::ConvertTo(PartTag(), wide));
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

// One tile: a panel and some rows, from the panel's first input on.
template <class F, int kRows>
struct QuantizedTile {
  const Panel& panel;
  const std::byte* first;  // the first row
  std::size_t stride;      // bytes from row to row
  bool is_stream;          // the weights come from memory

  // Goes on with sums[r], of row r of the tile, all 16 outputs.
  HWY_INLINE void add_to(Lanes* sums) const {
    const std::byte* x[kRows];
    OUTRIDER_UNROLL
    for (int r = 0; r < kRows; ++r) x[r] = first + static_cast<std::size_t>(r) * stride;
    const auto* values = reinterpret_cast<const std::uint8_t*>(panel.data);
    GroupScales<F> scales(panel);
    for (std::size_t g = 0; g < panel.groups; ++g, values += F::kGroupBytes) {
      scales.begin_group(g, values, is_stream);
      if (is_stream) prefetch_group(values + kAheadBytes);
      OUTRIDER_UNROLL
      for (std::size_t half = 0; half < F::kScales; ++half) {
        for (int p = 0; p < kParts; p += kTogether) {
          add_half(values + half * F::kHalfBytes, scales, half, p, x, sums);
        }
      }
      if constexpr (F::kHasMinimum) {
        for (std::size_t half = 0; half < F::kScales; ++half) add_minimums(scales, half, x, sums);
      }
      OUTRIDER_UNROLL
      for (int r = 0; r < kRows; ++r) x[r] += sizeof(QuantizedGroup);
    }
  }

  // prefetch() line by line, without the loop that the compiler would keep.
  static HWY_INLINE void prefetch_group(const std::uint8_t* values) {
    OUTRIDER_UNROLL
    for (std::size_t at = 0; at < F::kGroupBytes; at += kCacheLine) {
      prefetch(values + at, kCacheLine);
    }
  }

  HWY_INLINE void add_half(const std::uint8_t* values, const GroupScales<F>& scales,
                           std::size_t half, int part, const std::byte* const* x,
                           Lanes* sums) const {
    // Values shared by two parts would be kept in memory between them; reloading them is faster.
    if constexpr (kTogether < kParts) asm volatile("" ::: "memory");
    HalfSums<F, kRows> group;
    group.add(values, panel.flip, half, part, x);
    for (int t = 0; t < kTogether; ++t) {
      const Part weight_scale = scales.scale(half, part + t);
      OUTRIDER_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const auto scale = read_as<float>(x[r] + offsetof(QuantizedGroup, scale));
        Part& to = sums[r].part[part + t];
        to = hn::MulAdd(hn::ConvertTo(PartTag(), group.end(r, t)),
                        hn::Mul(weight_scale, hn::Set(PartTag(), scale)), to);
      }
    }
  }

  HWY_INLINE void add_minimums(const GroupScales<F>& scales, std::size_t half,
                               const std::byte* const* x, Lanes* sums) const {
    for (int p = 0; p < kParts; ++p) {
      const Part minimum = scales.minimum(half, p);
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

// The panels of some outputs, one for each part of the inputs, and rows of one block.
struct PanelProduct {
  std::span<const Panel> panels;
  const MatmulInput& in;
  std::size_t stride;  // bytes from row to row
  std::int64_t n;      // the panels' first output
  Outputs part;
  const MatmulOutput& y;

  template <class F, int kRows>
  HWY_NOINLINE void compute_rows(std::int64_t row, bool is_stream) const {
    Lanes sums[kRows];
    OUTRIDER_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r] = zero_lanes();
    const std::byte* first = in.quantized + static_cast<std::size_t>(row) * stride;
    for (const Panel& panel : panels) {
      QuantizedTile<F, kRows>{panel, first, stride, is_stream}.add_to(sums);
      first += panel.groups * sizeof(QuantizedGroup);
    }
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

// The panels of a matrix whose inputs may lie in parts.
class PartPanels {
 public:
  explicit PartPanels(const WeightMatrix& weights) : parts_(parts_of(weights)) {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const PanelLayout layout(weights.format, parts_[p].row_inputs());
      panels_[p] = {
          .data = static_cast<const std::byte*>(parts_[p].data),
          .scales = nullptr,
          .minimums = nullptr,
          .bytes = static_cast<std::size_t>(layout.panel_bytes),
          .groups = static_cast<std::size_t>((parts_[p].inputs + kQuantGroup - 1) / kQuantGroup),
          .is_f32 = weights.format.scales == ScaleType::kF32,
          .flip = static_cast<std::uint8_t>(weights.format.zero())};
      panels_[p].scales = panels_[p].data + layout.scales(0);
      panels_[p].minimums = panels_[p].data + layout.minimums(0);
    }
  }

  // Those of outputs 16 i and on; until the next call.
  std::span<const Panel> at(std::int64_t i) {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::int64_t offset = (i - at_) * static_cast<std::int64_t>(panels_[p].bytes);
      panels_[p].data += offset;
      panels_[p].scales += offset;
      panels_[p].minimums += offset;
    }
    at_ = i;
    return {panels_, parts_.size()};
  }

 private:
  const std::span<const WeightMatrix> parts_;
  std::int64_t at_ = 0;
  Panel panels_[kMaxParts];
};

template <class F>
void multiply_panels(const WeightMatrix& weights, const MatmulInput& in, Outputs part,
                     const MatmulOutput& y) {
  PartPanels panels(weights);
  const auto stride = static_cast<std::size_t>(quantized_row_bytes(weights.inputs));
  for (std::int64_t first = 0; first < in.rows; first += kBlockRows) {
    const std::int64_t rows = std::min(in.rows - first, kBlockRows);
    // Tiles of nearly equal height: a last tile of one row would unpack the weights for that row
    // alone.
    const std::int64_t tiles = (rows + kTileRows<F::kBits> - 1) / kTileRows<F::kBits>;
    for (std::int64_t i = part.begin / kPanelOutputs; i * kPanelOutputs < part.end; ++i) {
      const PanelProduct product{panels.at(i), in, stride, i * kPanelOutputs, part, y};
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t row = rows * t / tiles;
        product.template compute<F>(first + row, rows * (t + 1) / tiles - row, t == 0);
      }
    }
  }
}

template <int kBits, int kScaleGroup, bool kMultiples>
void multiply_format(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                     const MatmulOutput& y) {
  if (weights.format.has_minimum) {
    return multiply_panels<Format<kBits, kScaleGroup, true, kMultiples>>(weights, x, part, y);
  }
  multiply_panels<Format<kBits, kScaleGroup, false, kMultiples>>(weights, x, part, y);
}

template <bool kMultiples>
void multiply_by(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                 const MatmulOutput& y) {
  const QuantFormat& format = weights.format;
  if (format.has_table) {
    return multiply_panels<Format<4, 32, false, kMultiples, true>>(weights, x, part, y);
  }
  if constexpr (kMultiples) {
    if (format.bits == 6) {
      return multiply_panels<Format<6, 16, false, true>>(weights, x, part, y);
    }
  }
  const bool is_half = format.scale_group == 16;
  if (format.bits == 4 && is_half) return multiply_format<4, 16, kMultiples>(weights, x, part, y);
  if (format.bits == 4) return multiply_format<4, 32, kMultiples>(weights, x, part, y);
  if (is_half) return multiply_format<8, 16, kMultiples>(weights, x, part, y);
  multiply_format<8, 32, kMultiples>(weights, x, part, y);
}

void multiply_quantized(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                        const MatmulOutput& y) {
  if (weights.format.scales == ScaleType::kMultiples) {
    return multiply_by<true>(weights, x, part, y);
  }
  multiply_by<false>(weights, x, part, y);
}
