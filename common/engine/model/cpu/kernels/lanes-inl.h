// Sixteen virtual lanes of f32 on the CPU's vectors (docs/row-invariance.md).
//
// One AVX-512 register, two AVX2 registers or four NEON registers hold one Lanes. Element k of a
// reduction goes to lane k mod 16, each lane sums in order of k by fused multiply-add, and the
// lanes are combined in one fixed tree: i + (i+8), then i + (i+4), i + (i+2), i + (i+1). So a sum
// has the same bits on every CPU, and in every tile of a matrix product.
//
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set (see vector_targets.h), so no #pragma once.
#if defined(OUTRIDER_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OUTRIDER_LANES_INL_H_
#undef OUTRIDER_LANES_INL_H_
#else
#define OUTRIDER_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/vector_targets.h"
#include "hwy/highway.h"

// Before a loop over registers: if it is not unrolled, the compiler keeps the registers in memory.
#ifndef OUTRIDER_UNROLL
#ifdef __clang__
#define OUTRIDER_UNROLL
#else
#define OUTRIDER_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

namespace hn = hwy::HWY_NAMESPACE;

// Keeps a register (a vector's .raw) at this point of the program: otherwise the compiler collects
// products or operands of several steps first, or loads an operand again for each of its products.
template <class Register>
HWY_INLINE void keep_in_register(Register& value) {
#if defined(__x86_64__)
  asm("" : "+v"(value));
#else
  asm("" : "+w"(value));
#endif
}

inline constexpr int kLanes = 16;
inline constexpr int kPartLanes = HWY_MAX_BYTES / sizeof(float);
inline constexpr int kParts = kLanes / kPartLanes;

using PartTag = hn::CappedTag<float, kPartLanes>;
using Part = hn::Vec<PartTag>;  // one register
using QuadTag = hn::Full128<float>;
using Quad = hn::Vec<QuadTag>;  // four lanes: the result of folding a Lanes

struct Lanes {
  // Written out, so that the compiler generates it for this instruction set (GCC on Arm would not).
  HWY_INLINE Lanes() {}  // NOLINT(modernize-use-equals-default)
  Part part[kParts];
};

HWY_INLINE Lanes zero_lanes() {
  Lanes lanes;
  for (int p = 0; p < kParts; ++p) lanes.part[p] = hn::Zero(PartTag());
  return lanes;
}

HWY_INLINE Lanes load_lanes(const float* from) {
  Lanes lanes;
  for (int p = 0; p < kParts; ++p) {
    lanes.part[p] = hn::LoadU(PartTag(), from + p * kPartLanes);
  }
  return lanes;
}

HWY_INLINE void store_lanes(const Lanes& lanes, float* to) {
  for (int p = 0; p < kParts; ++p) {
    hn::StoreU(lanes.part[p], PartTag(), to + p * kPartLanes);
  }
}

inline constexpr std::size_t kCacheLine = 64;

// Prefetches memory into L2; L1 has no room for it beside the data in use.
HWY_INLINE void prefetch(const void* from, std::size_t bytes) {
  constexpr int kForReading = 0, kLevel2 = 2;
  for (std::size_t at = 0; at < bytes; at += kCacheLine) {
    __builtin_prefetch(static_cast<const std::uint8_t*>(from) + at, kForReading, kLevel2);
  }
}

// a * b + sum, one rounding.
HWY_INLINE Lanes fused(const Lanes& a, const Lanes& b, const Lanes& sum) {
  Lanes lanes;
  for (int p = 0; p < kParts; ++p) lanes.part[p] = hn::MulAdd(a.part[p], b.part[p], sum.part[p]);
  return lanes;
}

// Lanes i + (i+8), then i + (i+4).
HWY_INLINE Quad fold(const Lanes& lanes) {
#if HWY_TARGET == HWY_AVX3
  const hn::Full256<float> d8;
  const auto eight = hn::Add(hn::LowerHalf(d8, lanes.part[0]), hn::UpperHalf(d8, lanes.part[0]));
  return hn::Add(hn::LowerHalf(QuadTag(), eight), hn::UpperHalf(QuadTag(), eight));
#elif HWY_TARGET == HWY_AVX2
  const auto eight = hn::Add(lanes.part[0], lanes.part[1]);
  return hn::Add(hn::LowerHalf(QuadTag(), eight), hn::UpperHalf(QuadTag(), eight));
#else
  return hn::Add(hn::Add(lanes.part[0], lanes.part[2]), hn::Add(lanes.part[1], lanes.part[3]));
#endif
}

// The sums of four folded Lanes, as one register: lanes i + (i+2), then i + (i+1).
HWY_INLINE Quad sum_quads(Quad a, Quad b, Quad c, Quad e) {
  const QuadTag d;
  const Quad ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const Quad ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  return hn::Add(hn::ConcatLowerLower(d, ce, ab), hn::ConcatUpperUpper(d, ce, ab));
}

HWY_INLINE float sum_lanes(const Lanes& lanes) {
  const Quad folded = fold(lanes);
  return hn::GetLane(sum_quads(folded, folded, folded, folded));
}

// One register of weights at element `k` of a matrix row, widened to f32 exactly.
HWY_INLINE Part load_part(const float* row, std::size_t k) {
  return hn::LoadU(PartTag(), row + k);
}

HWY_INLINE Part load_part(const hwy::bfloat16_t* row, std::size_t k) {
  const hn::Rebind<std::uint16_t, PartTag> d16;
  const hn::RebindToUnsigned<PartTag> d32;
  const auto* bits = reinterpret_cast<const std::uint16_t*>(row);
  return hn::BitCast(PartTag(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, bits + k))));
}

HWY_INLINE Part load_part(const hwy::float16_t* row, std::size_t k) {
  const hn::Rebind<hwy::float16_t, PartTag> d16;
  return hn::PromoteTo(PartTag(), hn::LoadU(d16, row + k));
}

// Four elements, widened.
HWY_INLINE Quad load_quad(const float* from) {
  return hn::LoadU(QuadTag(), from);
}

HWY_INLINE Quad load_quad(const hwy::bfloat16_t* from) {
  const hn::Rebind<std::uint16_t, QuadTag> d16;
  const hn::RebindToUnsigned<QuadTag> d32;
  const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
  return hn::BitCast(QuadTag(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, bits))));
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
