// Matrix products of quantised weights and int8 activations, panel by panel.
//
// For each group, in order of k, a row's sum s of an output takes
//
//   s = fma(group's exact integer sum, weight scale * activation scale, s)     (per half, if two)
//   s = fma(weight minimum, activation scale * sum of activations, s)          (if there are
//   minimums)
//
// 16 outputs side by side, one in each lane: so the bits are those of every tile, register width
// and instruction set (docs/row-invariance.md).
//
// Included inside the namespace and the attributes of a file that is compiled once per instruction
// set, behind group_sums-inl.h. SPDX-License-Identifier: Apache-2.0

// Rows of a tile, and how many registers of a panel's 16 outputs are summed at once: what fits the
// registers.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kTileRows = 8;
inline constexpr int kTogether = 1;
#elif HWY_TARGET == HWY_AVX2 && defined(OUTRIDER_DOT_PRODUCTS)
inline constexpr int kTileRows = 4;
inline constexpr int kTogether = 2;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kTileRows = 4;
inline constexpr int kTogether = 1;
#else
inline constexpr int kTileRows = 4;
inline constexpr int kTogether = 4;
#endif

inline constexpr std::size_t kStepBytes = 4 * kPanelOutputs;
inline constexpr std::size_t kPartBytes = 4 * kPartLanes;
// How far ahead of a stream of weights memory is asked for.
inline constexpr std::size_t kAheadBytes = 4096;

// One panel.
struct Panel {
  const std::uint8_t* values;
  const std::byte* scales;
  const std::byte* minimums;  // null: none
  bool wide_scales;
  std::uint8_t flip;  // see StepWeights

  // Row `index` of scales or minimums, part p.
  HWY_INLINE Part scale(const std::byte* from, std::size_t index, int p) const {
    const std::size_t at = index * kPanelOutputs + static_cast<std::size_t>(p) * kPartLanes;
    if (wide_scales) return load_part(reinterpret_cast<const float*>(from), at);
    return load_part(reinterpret_cast<const hwy::float16_t*>(from), at);
  }
};

// Rows of activations, and where a row holds what.
struct QuantizedRows {
  QuantizedRows(const std::byte* first, const QuantizedRowLayout& layout, const QuantFormat& format)
      : base(first),
        groups(static_cast<std::size_t>(layout.groups)),
        stride(static_cast<std::size_t>(layout.row_bytes)),
        scales(static_cast<std::size_t>(layout.scales)),
        scaled_sums(static_cast<std::size_t>(layout.scaled_sums)) {
    const bool none = format.zero() == 0 || (kSignedBytes && format.bits == 8);
    const std::int64_t at = none                       ? layout.no_offset
                            : format.bits == 4         ? layout.offsets4
                            : format.scale_group == 16 ? layout.half_offsets8
                                                       : layout.offsets8;
    offsets = static_cast<std::size_t>(at);
    offset_step = none ? 0 : sizeof(std::int32_t);
  }

  template <class T>
  HWY_INLINE T get(std::size_t row, std::size_t at) const {
    T value;
    std::memcpy(&value, base + row * stride + at, sizeof(value));
    return value;
  }
  HWY_INLINE float scale(std::size_t row, std::size_t g) const {
    return get<float>(row, scales + g * sizeof(float));
  }
  HWY_INLINE float scaled_sum(std::size_t row, std::size_t g) const {
    return get<float>(row, scaled_sums + g * sizeof(float));
  }
  HWY_INLINE std::int32_t offset(std::size_t row, std::size_t index) const {
    return get<std::int32_t>(row, offsets + index * offset_step);
  }

  const std::byte* base;
  std::size_t groups, stride, scales, scaled_sums, offsets, offset_step;
};

// The weights of a format and the rows of one tile.
template <int kBits, int kScaleGroup, int kRows>
struct QuantizedTile {
  static constexpr std::size_t kGroupBytes = kPanelOutputs * kQuantGroup * kBits / 8;
  static constexpr std::size_t kScales = kQuantGroup / kScaleGroup;
  static constexpr std::size_t kSteps = kScaleGroup * kPanelOutputs * kBits / 8 / kStepBytes;

  const Panel& panel;
  const QuantizedRows& x;
  std::size_t row;  // the first
  bool is_stream;   // the weights come from memory

  // sums[r]: of row + r, all 16 outputs.
  HWY_INLINE void run(Lanes* sums) const {
    for (int r = 0; r < kRows; ++r) sums[r] = zero_lanes();
    const std::uint8_t* values = panel.values;
    for (std::size_t g = 0; g < x.groups; ++g, values += kGroupBytes) {
      if (is_stream) ask_for(values + kAheadBytes, kGroupBytes);
      for (std::size_t half = 0; half < kScales; ++half) {
        for (int p = 0; p < kParts; p += kTogether) {
          add_half(values + half * kSteps * kStepBytes, g, half, p, sums);
        }
      }
      if (panel.minimums != nullptr) add_minimums(g, sums);
    }
  }

  HWY_INLINE void add_half(const std::uint8_t* values, std::size_t g, std::size_t half, int part,
                           Lanes* sums) const {
    const std::size_t index = g * kScales + half;
    GroupSum<kBits> groups[kRows][kTogether];
    std::int32_t offset[kRows];
    for (int r = 0; r < kRows; ++r) {
      offset[r] = x.offset(row + static_cast<std::size_t>(r), index);
      for (GroupSum<kBits>& group : groups[r]) group.begin(offset[r]);
    }
    for (std::size_t s = 0; s < kSteps; ++s) {
      BytePart bytes[kTogether];
      for (int t = 0; t < kTogether; ++t) {
        bytes[t] = hn::LoadU(
            ByteTag(), values + s * kStepBytes + static_cast<std::size_t>(part + t) * kPartBytes);
      }
      const std::size_t at = g * kQuantGroup + half * kScaleGroup + 4 * s;
      if constexpr (kBits == 8) {
        add_step(bytes, at, groups);
      } else {
        BytePart halves[kTogether];
        for (int t = 0; t < kTogether; ++t) halves[t] = low_halves(bytes[t]);
        add_step(halves, at, groups);
        for (int t = 0; t < kTogether; ++t) halves[t] = high_halves(bytes[t]);
        add_step(halves, at + kQuantGroup / 2, groups);
      }
    }
    for (int t = 0; t < kTogether; ++t) {
      const Part weight_scale = panel.scale(panel.scales, index, part + t);
      for (int r = 0; r < kRows; ++r) {
        const float scale = x.scale(row + static_cast<std::size_t>(r), g);
        Part& sum = sums[r].part[part + t];
        sum = hn::MulAdd(hn::ConvertTo(PartTag(), groups[r][t].end(offset[r])),
                         hn::Mul(weight_scale, hn::Set(PartTag(), scale)), sum);
      }
    }
  }

  // The four elements from `at` on, for all rows and registers.
  HWY_INLINE void add_step(const BytePart* bytes, std::size_t at,
                           GroupSum<kBits> (*groups)[kTogether]) const {
    StepWeights<kBits> weights[kTogether];
    for (int t = 0; t < kTogether; ++t) weights[t].take(bytes[t], panel.flip);
    for (int r = 0; r < kRows; ++r) {
      const BytePart four =
          broadcast_four(x.base + (row + static_cast<std::size_t>(r)) * x.stride + at);
      for (int t = 0; t < kTogether; ++t) groups[r][t].add(weights[t], four);
    }
  }

  HWY_INLINE void add_minimums(std::size_t g, Lanes* sums) const {
    for (int p = 0; p < kParts; ++p) {
      const Part minimum = panel.scale(panel.minimums, g, p);
      for (int r = 0; r < kRows; ++r) {
        const float scaled_sum = x.scaled_sum(row + static_cast<std::size_t>(r), g);
        sums[r].part[p] = hn::MulAdd(minimum, hn::Set(PartTag(), scaled_sum), sums[r].part[p]);
      }
    }
  }
};

// The 16 outputs from n on, as far as they are asked for.
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

struct PanelProduct {
  const Panel& panel;
  const QuantizedRows& x;
  std::int64_t n;  // the panel's first output
  Outputs part;
  const MatmulOutput& y;

  template <int kBits, int kScaleGroup, int kRows>
  HWY_NOINLINE void compute_rows(std::int64_t row, bool is_stream) const {
    Lanes sums[kRows];
    QuantizedTile<kBits, kScaleGroup, kRows>{panel, x, static_cast<std::size_t>(row), is_stream}
        .run(sums);
    for (int r = 0; r < kRows; ++r) store_panel(sums[r], row + r, n, part, y);
  }

  template <int kBits, int kScaleGroup, int kRows = kTileRows>
  HWY_INLINE void compute(std::int64_t row, std::int64_t count, bool is_stream) const {
    if constexpr (kRows > 1) {
      if (count < kRows) return compute<kBits, kScaleGroup, kRows - 1>(row, count, is_stream);
    }
    compute_rows<kBits, kScaleGroup, kRows>(row, is_stream);
  }
};

template <int kBits, int kScaleGroup>
void multiply_panels(const WeightMatrix& weights, const MatmulInput& in, Outputs part,
                     const MatmulOutput& y) {
  const PanelLayout layout(weights.format, weights.inputs);
  const QuantizedRows x(in.quantized, QuantizedRowLayout(weights.inputs), weights.format);
  // Tiles of nearly equal height: a last one of a single row would unpack the weights for it alone.
  const std::int64_t tiles = (in.rows + kTileRows - 1) / kTileRows;
  for (std::int64_t i = part.begin / kPanelOutputs; i * kPanelOutputs < part.end; ++i) {
    const std::byte* base = static_cast<const std::byte*>(weights.data) + i * layout.panel_bytes;
    const Panel panel{reinterpret_cast<const std::uint8_t*>(base), base + layout.scales,
                      weights.format.has_minimum ? base + layout.minimums : nullptr,
                      weights.format.wide_scales, static_cast<std::uint8_t>(weights.format.zero())};
    const PanelProduct product{panel, x, i * kPanelOutputs, part, y};
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t row = in.rows * t / tiles;
      product.template compute<kBits, kScaleGroup>(row, in.rows * (t + 1) / tiles - row, t == 0);
    }
  }
}

void multiply_quantized(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                        const MatmulOutput& y) {
  if (weights.format.bits == 4) return multiply_panels<4, 32>(weights, x, part, y);
  if (weights.format.scale_group == 16) return multiply_panels<8, 16>(weights, x, part, y);
  multiply_panels<8, 32>(weights, x, part, y);
}
