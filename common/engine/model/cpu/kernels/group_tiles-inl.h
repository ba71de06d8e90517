// The exact integer sums of a group, or of half of one, for all rows of a tile: one row after the
// other by group_sums-inl.h or, on CPUs that multiply matrices of bytes, two rows at once.
//
// Included inside the namespace and the attributes of a file that is compiled once per instruction
// set, after group_sums-inl.h. OUTRIDER_BYTE_MATRICES: its CPUs multiply 2 x 8 by 8 x 2 bytes
// (I8MM). SPDX-License-Identifier: Apache-2.0

// Rows of a tile, and registers of a panel's 16 outputs that are summed at once: as many as fit the
// registers.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kTileRows4 = 8, kTileRows8 = 8;
inline constexpr int kTogether = 1;
#elif HWY_TARGET == HWY_AVX2 && defined(OUTRIDER_DOT_PRODUCTS)
inline constexpr int kTileRows4 = 4, kTileRows8 = 4;
inline constexpr int kTogether = 2;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kTileRows4 = 8, kTileRows8 = 4;  // with 8 bits each row has two sums
inline constexpr int kTogether = 1;
#elif defined(OUTRIDER_BYTE_MATRICES)
inline constexpr int kTileRows4 = 8, kTileRows8 = 8;
inline constexpr int kTogether = 2;
#else
inline constexpr int kTileRows4 = 4, kTileRows8 = 4;
inline constexpr int kTogether = 4;
#endif

template <int kBits>
inline constexpr int kTileRows = kBits == 4 ? kTileRows4 : kTileRows8;

inline constexpr std::size_t kStepBytes = 4 * kPanelOutputs;
inline constexpr std::size_t kPartBytes = 4 * kPartLanes;

// A format's constants.
template <int kBitsOf, int kScaleGroup, bool kMinimum, bool kMultiplesOf, bool kTable = false>
struct Format {
  static constexpr int kStoredBits = kBitsOf;
  static constexpr bool kHasTable = kTable;
  static constexpr int kBits = kTable ? 8 : kBitsOf;  // of the numbers that are multiplied
  static constexpr bool kHasMinimum = kMinimum;
  static constexpr bool kHasMultiples = kMultiplesOf;  // as scales
  static constexpr std::size_t kGroupBytes = kPanelOutputs * kQuantGroup * kStoredBits / 8;
  static constexpr std::size_t kScales = kQuantGroup / kScaleGroup;
  // Registers of weights that a scale's weights are in. Those of 4 bits, also the low ones of 6,
  // hold both half groups.
  static constexpr std::size_t kSteps = kStoredBits == 8 ? kScaleGroup / 4 : 4;
  static constexpr std::size_t kHalfBytes = kStoredBits == 8 ? kSteps * kStepBytes : 0;
  // Whether the weights' zero must be subtracted from sums.
  static constexpr bool kHasOffset = !kHasMinimum && !(kSignedBytes && kBits == 8);
  static constexpr std::size_t kOffset = kScales == 2 ? offsetof(QuantizedGroup, half_offsets8)
                                         : kBits == 4 ? offsetof(QuantizedGroup, offset4)
                                                      : offsetof(QuantizedGroup, offset8);
};

// The numbers in the low halves of bytes (part 0) or in the high ones.
HWY_INLINE BytePart half_of(BytePart bytes, std::size_t part) {
  return part == 0 ? low_halves(bytes) : high_halves(bytes);
}

template <class T>
HWY_INLINE T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// The start value of a row's sum: minus the weights' zero times the sum of its activations.
template <class F>
HWY_INLINE std::int32_t offset_of(const std::byte* group, std::size_t half) {
  if constexpr (!F::kHasOffset) return 0;
  const auto offset = read_as<std::int32_t>(group + F::kOffset + half * sizeof(std::int32_t));
  // Makes the offset of zero 8 or 32 from that of 128.
  return F::kScales == 2 ? offset >> (8 - F::kBits) : offset;
}

// Registers of weights of a step for kTogether parts from `part` on.
HWY_INLINE void load_step(const std::uint8_t* values, std::size_t step, int part, BytePart* bytes) {
  for (int t = 0; t < kTogether; ++t) {
    bytes[t] = hn::LoadU(
        ByteTag(), values + step * kStepBytes + static_cast<std::size_t>(part + t) * kPartBytes);
  }
}

// The numbers of 6 bits whose low bits are in the halves `half` of a step's bytes. values: the
// group's.
HWY_INLINE void join_bits(const std::uint8_t* values, std::size_t half, std::size_t step, int part,
                          BytePart* bytes) {
  const hn::RebindToUnsigned<ShortTag> d16;
  BytePart high[kTogether];
  load_step(values, 4 + half, part, high);
  for (int t = 0; t < kTogether; ++t) {
    const auto pairs = hn::BitCast(d16, high[t]);
    const auto moved = step == 0   ? hn::ShiftLeft<4>(pairs)
                       : step == 1 ? hn::ShiftLeft<2>(pairs)
                       : step == 2 ? pairs
                                   : hn::ShiftRight<2>(pairs);
    const BytePart raised = hn::And(hn::BitCast(ByteTag(), moved), hn::Set(ByteTag(), 0x30));
    bytes[t] = hn::Or(half_of(bytes[t], half), raised);
  }
}

// The exact sums of a group, or of half of one, for the rows of a tile, one row after the other.
template <class F, int kRows>
struct RowSums {
  // values: the half's weights. x[r]: row r's group.
  HWY_INLINE void add(const std::uint8_t* values, std::uint8_t flip, std::size_t half, int part,
                      const std::byte* const* x) {
    OUTRIDER_UNROLL
    for (int r = 0; r < kRows; ++r) {
      offset[r] = offset_of<F>(x[r], half);
      for (GroupSum<F::kBits>& sum : group[r]) sum.begin(offset[r]);
    }
    OUTRIDER_UNROLL
    for (std::size_t s = 0; s < F::kSteps; ++s) {
      BytePart bytes[kTogether];
      load_step(values, s, part, bytes);
      if constexpr (F::kStoredBits == 8) {
        add_step(bytes, flip, half * kQuantGroup / 2 + 4 * s, x);
      } else if constexpr (F::kStoredBits == 6) {
        join_bits(values, half, s, part, bytes);
        add_step(bytes, flip, half * kQuantGroup / 2 + 4 * s, x);
      } else {
        // A scale is for both halves of the bytes, or for one of them.
        add_half_step(bytes, flip, s, half, x);
        if constexpr (F::kScales == 1) add_half_step(bytes, flip, s, 1, x);
      }
    }
  }
  // The sums of row r and register t.
  HWY_INLINE IntPart end(int r, int t) const {
    return group[r][t].template end<F::kHasOffset>(offset[r]);
  }

  HWY_INLINE void add_half_step(const BytePart* bytes, std::uint8_t flip, std::size_t step,
                                std::size_t part, const std::byte* const* x) {
    BytePart values[kTogether];
    for (int t = 0; t < kTogether; ++t) values[t] = half_of(bytes[t], part);
    add_step(values, flip, part * kQuantGroup / 2 + 4 * step, x);
  }

  // The four elements from `at` of the group on, for all rows and registers.
  HWY_INLINE void add_step(const BytePart* bytes, std::uint8_t flip, std::size_t at,
                           const std::byte* const* x) {
    StepWeights<F::kBits> weights[kTogether];
    for (int t = 0; t < kTogether; ++t) {
      if constexpr (F::kHasTable) {
        weights[t].take_indices(bytes[t], flip);
      } else {
        weights[t].take(bytes[t], flip);
      }
    }
    OUTRIDER_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const BytePart four = broadcast_four(x[r] + at);
      for (int t = 0; t < kTogether; ++t) group[r][t].add(weights[t], four, at / 4);
    }
  }

  HWY_INLINE RowSums() {}  // NOLINT(modernize-use-equals-default): see Lanes
  GroupSum<F::kBits> group[kRows][kTogether];
  std::int32_t offset[kRows];
};

#if defined(OUTRIDER_BYTE_MATRICES)

// Like RowSums, for rows two by two: a product of 2 x 8 weights and 8 x 2 activations takes two
// steps of two outputs for both rows. An odd last row is paired with itself.
template <class F, int kRows>
struct PairSums {
  static constexpr int kPairs = (kRows + 1) / 2;
  static_assert(F::kSteps % 2 == 0);

  HWY_INLINE void add(const std::uint8_t* values, std::uint8_t flip, std::size_t half, int part,
                      const std::byte* const* x) {
    OUTRIDER_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      const std::int32_t a = offset_of<F>(x[2 * i], half);
      const std::int32_t b = offset_of<F>(x[second_of(i)], half);
      const int32x4_t both = vzip1q_s32(vdupq_n_s32(a), vdupq_n_s32(b));
      for (auto& sums : pair[i]) sums[0] = sums[1] = both;
    }
    OUTRIDER_UNROLL
    for (std::size_t s = 0; s < F::kSteps; s += 2) {
      BytePart first[kTogether], second[kTogether];
      load_step(values, s, part, first);
      load_step(values, s + 1, part, second);
      if constexpr (F::kStoredBits == 6) {
        join_bits(values, half, s, part, first);
        join_bits(values, half, s + 1, part, second);
      }
      for (int t = 0; t < kTogether; ++t) {
        if constexpr (F::kStoredBits != 4) {
          add_two_steps(t, first[t], second[t], flip, half * kQuantGroup / 2 + 4 * s, x);
        } else {
          add_half_steps(t, first[t], second[t], flip, s, half, x);
          if constexpr (F::kScales == 1) add_half_steps(t, first[t], second[t], flip, s, 1, x);
        }
      }
    }
  }
  HWY_INLINE IntPart end(int r, int t) const {
    const auto& sums = pair[r / 2][t];
    return IntPart(r % 2 == 0 ? vuzp1q_s32(sums[0], sums[1]) : vuzp2q_s32(sums[0], sums[1]));
  }

  HWY_INLINE void add_half_steps(int t, BytePart first, BytePart second, std::uint8_t flip,
                                 std::size_t step, std::size_t part, const std::byte* const* x) {
    first = half_of(first, part);
    second = half_of(second, part);
    if constexpr (F::kHasTable) {
      first = look_up(kTableValues, first);
      second = look_up(kTableValues, second);
    }
    add_two_steps(t, first, second, flip, part * kQuantGroup / 2 + 4 * step, x);
  }

  // The eight elements from `at` of the group on, for all rows and register t.
  HWY_INLINE void add_two_steps(int t, BytePart first, BytePart second, std::uint8_t flip,
                                std::size_t at, const std::byte* const* x) {
    if constexpr (F::kBits == 8) {
      const BytePart zero = hn::Set(ByteTag(), flip);
      first = hn::Xor(first, zero);
      second = hn::Xor(second, zero);
    }
    const int32x4_t a = vreinterpretq_s32_u8(first.raw), b = vreinterpretq_s32_u8(second.raw);
    const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(a, b));
    const int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(a, b));
    OUTRIDER_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      const int8x16_t rows = vcombine_s8(eight(x[2 * i] + at), eight(x[second_of(i)] + at));
      pair[i][t][0] = vmmlaq_s32(pair[i][t][0], low, rows);
      pair[i][t][1] = vmmlaq_s32(pair[i][t][1], high, rows);
      keep_in_register(pair[i][t][0]);
      keep_in_register(pair[i][t][1]);
    }
  }
  static HWY_INLINE int8x8_t eight(const std::byte* from) {
    return vld1_s8(reinterpret_cast<const std::int8_t*>(from));
  }
  static constexpr int second_of(int i) { return 2 * i + 1 < kRows ? 2 * i + 1 : 2 * i; }

  HWY_INLINE PairSums() {}  // NOLINT(modernize-use-equals-default): see Lanes
  // The sums of outputs 0 and 1, and of 2 and 3: [output][row of the pair].
  int32x4_t pair[kPairs][kTogether][2];
};

template <class F, int kRows>
using HalfSums = std::conditional_t<kRows == 1, RowSums<F, kRows>, PairSums<F, kRows>>;

#else

template <class F, int kRows>
using HalfSums = RowSums<F, kRows>;

#endif
