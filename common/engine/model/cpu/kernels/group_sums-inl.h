// The exact integer sums in a product of quantised numbers: a group's products of one row of
// activations with a register of outputs, one output in each 32-bit lane.
//
// Included inside the namespace and the attributes of a file that is compiled once per instruction
// set. OUTRIDER_DOT_PRODUCTS: its CPUs sum four products of bytes at once (VNNI, SDOT). Sums are
// exact, so their order does not matter and all variants agree:
//
//   dot     adds four products of unsigned weights and signed activations
//   AVX2    int8 weights as two halves of four bits: eight steps of at most 2 * 15 * 127 add up to
//           30 480, so 16-bit lanes hold a whole group's sum, and no product saturates; int6
//           weights whole, as two steps of at most 2 * 63 * 127 add up to 32 004
//   NEON    int8 weights as signed numbers, widening products, pairs added
//
// SPDX-License-Identifier: Apache-2.0

using IntTag = hn::RebindToSigned<PartTag>;
using IntPart = hn::Vec<IntTag>;
using ByteTag = hn::Repartition<std::uint8_t, PartTag>;
using BytePart = hn::Vec<ByteTag>;
using ShortTag = hn::Repartition<std::int16_t, PartTag>;
using ShortPart = hn::Vec<ShortTag>;

// Whether int8 weights are read as signed numbers, which need no offset.
#if HWY_TARGET == HWY_NEON
inline constexpr bool kSignedBytes = true;
#else
inline constexpr bool kSignedBytes = false;
#endif

// Four activations in every lane.
HWY_INLINE BytePart broadcast_four(const std::byte* from) {
  std::int32_t four = 0;
  std::memcpy(&four, from, sizeof(four));
  return hn::BitCast(ByteTag(), hn::Set(IntTag(), four));
}

HWY_INLINE BytePart low_halves(BytePart bytes) {
  return hn::And(bytes, hn::Set(ByteTag(), 0x0f));
}
HWY_INLINE BytePart high_halves(BytePart bytes) {
  const hn::RebindToUnsigned<ShortTag> d16;
  return low_halves(hn::BitCast(ByteTag(), hn::ShiftRight<4>(hn::BitCast(d16, bytes))));
}

// Looks up indices below 16 in a table of 16 bytes.
HWY_INLINE BytePart look_up(const std::uint8_t* table, BytePart indices) {
  return hn::TableLookupBytes(hn::LoadDup128(ByteTag(), table), indices);
}

// A step's weights, unpacked once for all rows of a tile: take() gets the numbers, take_indices()
// indices of kTableValues. `flip` converts unsigned to signed numbers.
template <int kBits>
struct StepWeights;

// The sum of one row's group: begin(), add() for each step of the group, end(). The offset is added
// once.
template <int kBits>
struct GroupSum;

#if defined(OUTRIDER_DOT_PRODUCTS)

HWY_INLINE IntPart add_products(IntPart sum, BytePart w, BytePart x) {
#if HWY_TARGET == HWY_AVX3
  return IntPart{_mm512_dpbusd_epi32(sum.raw, w.raw, x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return IntPart{_mm256_dpbusd_avx_epi32(sum.raw, w.raw, x.raw)};
#else
  return IntPart(vdotq_s32(sum.raw, vreinterpretq_s8_u8(w.raw), vreinterpretq_s8_u8(x.raw)));
#endif
}

template <int kBits>
struct StepWeights {
  HWY_INLINE void take(BytePart bytes, std::uint8_t flip) {
    all = kSignedBytes && kBits == 8 ? hn::Xor(bytes, hn::Set(ByteTag(), flip)) : bytes;
  }
  HWY_INLINE void take_indices(BytePart indices, std::uint8_t flip) {
    take(look_up(kTableValues, indices), flip);
  }
  HWY_INLINE StepWeights() {}  // NOLINT(modernize-use-equals-default): see Lanes
  BytePart all;
};

template <int kBits>
struct GroupSum {
  HWY_INLINE void begin(std::int32_t offset) { sum = hn::Set(IntTag(), offset); }
  HWY_INLINE void add(const StepWeights<kBits>& w, BytePart x, std::size_t /*step*/) {
    sum = add_products(sum, w.all, x);
#if HWY_TARGET == HWY_NEON
    keep_in_register(sum.raw);
#endif
  }
  template <bool kHasOffset>
  HWY_INLINE IntPart end(std::int32_t /*offset*/) const {
    return sum;
  }
  HWY_INLINE GroupSum() {}  // NOLINT(modernize-use-equals-default)
  IntPart sum;
};

#elif HWY_TARGET == HWY_AVX2

HWY_INLINE void add_products(ShortPart& sum, BytePart w, BytePart x) {
  sum = hn::Add(sum, ShortPart{_mm256_maddubs_epi16(w.raw, x.raw)});
  keep_in_register(sum.raw);
}
// Pairs of 16-bit sums times `factor`.
HWY_INLINE IntPart add_pairs(ShortPart sum, std::int16_t factor) {
  return IntPart{_mm256_madd_epi16(sum.raw, _mm256_set1_epi16(factor))};
}

template <bool kHasOffset>
HWY_INLINE IntPart with_offset(IntPart sum, std::int32_t offset) {
  if constexpr (kHasOffset) sum = hn::Add(sum, hn::Set(IntTag(), offset));
  return sum;
}

// The two halves of kTableValues' bytes.
struct TableHalves {
  constexpr TableHalves() {
    for (int i = 0; i < 16; ++i) {
      low[i] = kTableValues[i] & 15;
      high[i] = kTableValues[i] >> 4;
    }
  }
  std::uint8_t low[16] = {}, high[16] = {};
};
inline constexpr TableHalves kTableHalves;

template <>
struct StepWeights<8> {
  HWY_INLINE void take(BytePart bytes, std::uint8_t /*flip*/) {
    low = low_halves(bytes);
    high = high_halves(bytes);
  }
  HWY_INLINE void take_indices(BytePart indices, std::uint8_t /*flip*/) {
    low = look_up(kTableHalves.low, indices);
    high = look_up(kTableHalves.high, indices);
  }
  HWY_INLINE StepWeights() {}  // NOLINT(modernize-use-equals-default)
  BytePart low, high;
};

template <>
struct GroupSum<8> {
  HWY_INLINE void begin(std::int32_t /*offset*/) { low = high = hn::Zero(ShortTag()); }
  HWY_INLINE void add(const StepWeights<8>& w, BytePart x, std::size_t /*step*/) {
    add_products(low, w.low, x);
    add_products(high, w.high, x);
  }
  template <bool kHasOffset>
  HWY_INLINE IntPart end(std::int32_t offset) const {
    return with_offset<kHasOffset>(hn::Add(add_pairs(low, 1), add_pairs(high, 16)), offset);
  }
  HWY_INLINE GroupSum() {}  // NOLINT(modernize-use-equals-default)
  ShortPart low, high;
};

template <>
struct StepWeights<4> {
  HWY_INLINE void take(BytePart bytes, std::uint8_t /*flip*/) { all = bytes; }
  HWY_INLINE StepWeights() {}  // NOLINT(modernize-use-equals-default): see Lanes
  BytePart all;
};

template <>
struct GroupSum<4> {
  HWY_INLINE void begin(std::int32_t /*offset*/) { sum = hn::Zero(ShortTag()); }
  HWY_INLINE void add(const StepWeights<4>& w, BytePart x, std::size_t /*step*/) {
    add_products(sum, w.all, x);
  }
  template <bool kHasOffset>
  HWY_INLINE IntPart end(std::int32_t offset) const {
    return with_offset<kHasOffset>(add_pairs(sum, 1), offset);
  }
  HWY_INLINE GroupSum() {}  // NOLINT(modernize-use-equals-default)
  ShortPart sum;
};

template <>
struct StepWeights<6> {
  HWY_INLINE void take(BytePart bytes, std::uint8_t /*flip*/) { all = bytes; }
  HWY_INLINE StepWeights() {}  // NOLINT(modernize-use-equals-default): see Lanes
  BytePart all;
};

// The sum of half a group, four steps.
template <>
struct GroupSum<6> {
  HWY_INLINE void begin(std::int32_t /*offset*/) { sum[0] = sum[1] = hn::Zero(ShortTag()); }
  HWY_INLINE void add(const StepWeights<6>& w, BytePart x, std::size_t step) {
    add_products(sum[step % 2], w.all, x);
  }
  template <bool kHasOffset>
  HWY_INLINE IntPart end(std::int32_t offset) const {
    return with_offset<kHasOffset>(hn::Add(add_pairs(sum[0], 1), add_pairs(sum[1], 1)), offset);
  }
  HWY_INLINE GroupSum() {}  // NOLINT(modernize-use-equals-default)
  ShortPart sum[2];
};

#else  // NEON

template <int kBits>
struct StepWeights {
  HWY_INLINE void take(BytePart bytes, std::uint8_t flip) {
    all = kBits == 8 ? hn::Xor(bytes, hn::Set(ByteTag(), flip)) : bytes;
  }
  HWY_INLINE void take_indices(BytePart indices, std::uint8_t flip) {
    take(look_up(kTableValues, indices), flip);
  }
  HWY_INLINE StepWeights() {}  // NOLINT(modernize-use-equals-default): see Lanes
  BytePart all;
};

template <int kBits>
struct GroupSum {
  HWY_INLINE void begin(std::int32_t offset) { sum = hn::Set(IntTag(), offset); }
  // A pair sums to at most 2 * 128 * 127 < 2^15.
  HWY_INLINE void add(const StepWeights<kBits>& weights, BytePart activations,
                      std::size_t /*step*/) {
    const int8x16_t w = vreinterpretq_s8_u8(weights.all.raw);
    const int8x16_t x = vreinterpretq_s8_u8(activations.raw);
    const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    const int16x8_t high = vmull_high_s8(w, x);
    sum = IntPart(vpadalq_s16(sum.raw, vpaddq_s16(low, high)));
  }
  template <bool kHasOffset>
  HWY_INLINE IntPart end(std::int32_t /*offset*/) const {
    return sum;
  }
  HWY_INLINE GroupSum() {}  // NOLINT(modernize-use-equals-default)
  IntPart sum;
};

#endif
