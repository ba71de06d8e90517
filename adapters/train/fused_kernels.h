// Loops of fused.cc over one row or a range of rows. Plain C++ that compilers vectorize; sums have
// 16 partial sums for this purpose. Thread rule: pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <bit>
#include <cstdint>
#include <cstring>

// One copy of a function per vector width, chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OUTRIDER_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OUTRIDER_VECTOR_CLONES
#endif

// For functions that clones call: without inlining they would keep the narrowest width.
#define OUTRIDER_ALWAYS_INLINE [[gnu::always_inline]] inline

namespace outrider {

// The elements of a contiguous tensor. T: the tensor's element type.
template <typename T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

}  // namespace outrider

namespace outrider::fused {

// The bits of a bf16 number.
struct Bf16 {
  std::uint16_t bits;
};

OUTRIDER_ALWAYS_INLINE float widen(float x) {
  return x;
}
OUTRIDER_ALWAYS_INLINE float widen(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

// Rounds to nearest, ties to even. NaNs that the processor makes stay NaN.
OUTRIDER_ALWAYS_INLINE void narrow(float x, float& out) {
  out = x;
}
OUTRIDER_ALWAYS_INLINE void narrow(float x, Bf16& out) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  out.bits = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline constexpr std::int64_t kLanes = 16;

// e^x between -87 and 88, the border's value beyond it; relative error below 2e-7.
OUTRIDER_ALWAYS_INLINE float exp_of(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // to the nearest integer
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const auto power = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(power);
}

OUTRIDER_ALWAYS_INLINE float sum_of(const float* lanes) {
  float sum = 0;
  for (std::int64_t i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

}  // namespace outrider::fused
