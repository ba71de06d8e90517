// Matrix product of int8 weights and int8 activations.
//
// Each of the 16 groups of a block sums its 32 products in one 32-bit integer lane, exactly:
// |sum| <= 32 * 127 * 127 < 2^19. The lane's sum, as f32, is then scaled by both groups' scales and
// added to f32 lane g by fused multiply-add: the order of lanes-inl.h with groups as elements. So
// the bits do not depend on how an instruction set multiplies bytes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/model/cpu/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/model/cpu/matmul_int8.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/model/cpu/lanes-inl.h"
#include "common/model/cpu/matmul_tiles-inl.h"

#if HWY_TARGET == HWY_AVX3
// Highway 1.0.3 has no target of AVX-512 with VNNI; matmul_int8() below asks the CPU.
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
namespace {

using IntTag = hn::RebindToSigned<PartTag>;
using IntPart = hn::Vec<IntTag>;
using ByteTag = hn::Repartition<std::int8_t, PartTag>;
using BytePart = hn::Vec<ByteTag>;

constexpr std::size_t kStepBytes = 4 * kInt8BlockGroups;
constexpr std::size_t kPartBytes = 4 * kPartLanes;
constexpr std::size_t kSteps = kInt8Block / kStepBytes;

// The integer lanes before the first product, and sum + the products of four weights and four
// activations in each lane.
#if HWY_TARGET == HWY_AVX3

// VNNI multiplies unsigned by signed bytes: weights are taken as w + 128, and the offsets take
// 128 * sum(x) away.
HWY_INLINE IntPart first_sum(const std::int32_t* offsets) {
  return hn::LoadU(IntTag(), offsets);
}
HWY_INLINE IntPart add_products(IntPart sum, BytePart w, BytePart x) {
  const BytePart biased = hn::Xor(w, hn::Set(ByteTag(), -128));
  return IntPart{_mm512_dpbusd_epi32(sum.raw, biased.raw, x.raw)};
}

#elif HWY_TARGET == HWY_AVX2

HWY_INLINE IntPart first_sum(const std::int32_t* /*offsets*/) {
  return hn::Zero(IntTag());
}
// |w| times x with w's sign; a pair sums to at most 2 * 127 * 127 < 2^15, so nothing saturates.
HWY_INLINE IntPart add_products(IntPart sum, BytePart w, BytePart x) {
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_abs_epi8(w.raw), _mm256_sign_epi8(x.raw, w.raw));
  return hn::Add(sum, IntPart{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
}

#else

HWY_INLINE IntPart first_sum(const std::int32_t* /*offsets*/) {
  return hn::Zero(IntTag());
}
HWY_INLINE IntPart add_products(IntPart sum, BytePart w, BytePart x) {
  const int16x8_t low = vmull_s8(vget_low_s8(w.raw), vget_low_s8(x.raw));
  const int16x8_t high = vmull_high_s8(w.raw, x.raw);
  return IntPart(vpadalq_s16(sum.raw, vpaddq_s16(low, high)));
}

#endif

#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 4;
#else
constexpr int kTileRows = 2;
#endif
constexpr int kTileColumns = 2;

struct Int8Product {
  const std::int8_t* weights;   // [outputs, blocks, 512]
  const std::uint16_t* scales;  // [outputs, blocks, 16] bf16
  const Int8Block* x;           // [rows, blocks]
  std::size_t blocks;

  // Called, not inlined: the callers are compiled without VNNI.
  template <int kRows, int kColumns>
  HWY_NOINLINE void tile(std::size_t row, const std::size_t* columns, Quad* folded) const {
    Lanes sums[kRows * kColumns];
    for (Lanes& sum : sums) sum = zero_lanes();
    for (std::size_t b = 0; b < blocks; ++b) {
      add_block<kRows, kColumns>(row, columns, b, sums);
    }
    for (int i = 0; i < kRows * kColumns; ++i) folded[i] = fold(sums[i]);
  }

  template <int kRows, int kColumns>
  HWY_INLINE void add_block(std::size_t row, const std::size_t* columns, std::size_t b,
                            Lanes* sums) const {
    const std::int8_t* next_tile =
        weights + (columns[0] * blocks + kColumns * (blocks + b)) * kInt8Block;
    for (int p = 0; p < kParts; ++p) {
      IntPart groups[kRows * kColumns];
      for (int i = 0; i < kRows * kColumns; ++i) {
        groups[i] = first_sum(input(row + i / kColumns, b).offsets + p * kPartLanes);
      }
      for (std::size_t s = 0; s < kSteps; ++s) {
        const std::size_t at = s * kStepBytes + p * kPartBytes;
        ask_for(next_tile, kColumns * kPartBytes);
        next_tile += kColumns * kPartBytes;
        for (int c = 0; c < kColumns; ++c) {
          const std::int8_t* from = weights + (columns[c] * blocks + b) * kInt8Block + at;
          const BytePart w = hn::LoadU(ByteTag(), from);
          for (int r = 0; r < kRows; ++r) {
            const BytePart value = hn::LoadU(ByteTag(), input(row + r, b).values + at);
            IntPart& sum = groups[r * kColumns + c];
            sum = add_products(sum, w, value);
          }
        }
      }
      scale_groups<kRows, kColumns>(row, columns, b, p, groups, sums);
    }
  }

  template <int kRows, int kColumns>
  HWY_INLINE void scale_groups(std::size_t row, const std::size_t* columns, std::size_t b, int p,
                               const IntPart* groups, Lanes* sums) const {
    const std::size_t lane = static_cast<std::size_t>(p) * kPartLanes;
    for (int c = 0; c < kColumns; ++c) {
      const auto* from = reinterpret_cast<const hwy::bfloat16_t*>(scales) +
                         (columns[c] * blocks + b) * kInt8BlockGroups;
      const Part weight_scale = load_part(from, lane);
      for (int r = 0; r < kRows; ++r) {
        const Part scale =
            hn::Mul(weight_scale, hn::LoadU(PartTag(), input(row + r, b).scales + lane));
        Part& sum = sums[r * kColumns + c].part[p];
        sum = hn::MulAdd(hn::ConvertTo(PartTag(), groups[r * kColumns + c]), scale, sum);
      }
    }
  }

  HWY_INLINE const Int8Block& input(std::size_t row, std::size_t b) const {
    return x[row * blocks + b];
  }
};

}  // namespace

void matmul_int8(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                 const MatmulOutput& y) {
  const std::int64_t blocks = int8_blocks(weights.inputs);
  const Int8Product product{static_cast<const std::int8_t*>(weights.data), weights.scales,
                            x.quantized, static_cast<std::size_t>(blocks)};
  for_each_tile<kTileRows, kTileColumns>(product, blocks * kInt8Block, x.rows, part, y);
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

MatmulFunction matmul_int8(VectorTarget target) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512vnni")) target = VectorTarget::kAvx2;
#endif
  return OUTRIDER_VECTOR_FUNCTION(target, matmul_int8);
}

}  // namespace outrider
#endif  // HWY_ONCE
