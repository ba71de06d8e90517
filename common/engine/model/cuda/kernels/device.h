// The language in which kernels are written: CUDA's own when nvcc compiles them, fibers when a host
// compiler does (fibers.h). Arithmetic is IEEE's with one rounding an operation on both sides, and
// fused only in fused().
//
// A program for a GPU has both: nvcc makes machine code of the kernels (gpu_kernel.h), the host's
// compiler what launches them, with OUTRIDER_ON_GPU. Kernels are then named there and never run.
//
// Included by files that hold kernels. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#define OUTRIDER_KERNEL __global__ void
#define OUTRIDER_DEVICE __device__ __forceinline__
#define OUTRIDER_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define OUTRIDER_ARGUMENT const __grid_constant__
#define OUTRIDER_UNROLLED _Pragma("unroll")
#define OUTRIDER_UNROLLED_TWICE _Pragma("unroll 2")
#define OUTRIDER_UNROLLED_BY_FOUR _Pragma("unroll 4")
#define OUTRIDER_NOT_UNROLLED _Pragma("unroll 1")
#else
#include "common/engine/model/cuda/fibers/fibers.h"
#include "common/engine/model/format/dtype.h"
#define OUTRIDER_KERNEL void
#define OUTRIDER_DEVICE inline
#define OUTRIDER_BOUNDS(threads, blocks)
#define OUTRIDER_ARGUMENT const
#define OUTRIDER_UNROLLED
#define OUTRIDER_UNROLLED_TWICE
#define OUTRIDER_UNROLLED_BY_FOUR
#define OUTRIDER_NOT_UNROLLED
#endif
#ifdef OUTRIDER_ON_GPU
#include "common/engine/model/cuda/device/gpu_kernel.h"
#endif
#include "common/engine/model/cuda/kernels/grid.h"

namespace outrider::cuda {

inline constexpr int kWarpLanes = 32;

struct alignas(8) Two {
  std::uint32_t x, y;
};
struct alignas(16) Four {
  std::uint32_t x, y, z, w;
};
struct alignas(16) FourFloats {
  float x, y, z, w;
};

// kCount of them, read at once.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Several {
  T of[kCount];
};

// Reads T where it lies; the address is a multiple of T's size.
template <class T>
OUTRIDER_DEVICE T read(const void* from) {
  return *static_cast<const T*>(from);
}

#ifdef __CUDACC__

OUTRIDER_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
OUTRIDER_DEVICE int block_x() {
  return static_cast<int>(blockIdx.x);
}
OUTRIDER_DEVICE int block_y() {
  return static_cast<int>(blockIdx.y);
}
OUTRIDER_DEVICE int block_z() {
  return static_cast<int>(blockIdx.z);
}
OUTRIDER_DEVICE std::byte* shared_memory() {
  extern __shared__ uint4 memory[];
  auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  asm("" : "+r"(at));  // else each use finds it anew, in three instructions
  return static_cast<std::byte*>(__cvta_shared_to_generic(at));
}
OUTRIDER_DEVICE void sync_threads() {
  __syncthreads();
}

OUTRIDER_DEVICE float multiply(float a, float b) {
  return __fmul_rn(a, b);
}
OUTRIDER_DEVICE float add(float a, float b) {
  return __fadd_rn(a, b);
}
OUTRIDER_DEVICE float fused(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
OUTRIDER_DEVICE float divide(float a, float b) {
  return __fdiv_rn(a, b);
}
OUTRIDER_DEVICE float square_root(float a) {
  return __fsqrt_rn(a);
}
OUTRIDER_DEVICE float round_even(float a) {
  return rintf(a);
}
OUTRIDER_DEVICE float as_float(std::uint32_t bits) {
  return __uint_as_float(bits);
}
OUTRIDER_DEVICE std::uint32_t as_bits(float a) {
  return __float_as_uint(a);
}
OUTRIDER_DEVICE float widen_f16(std::uint16_t bits) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
  return out;
}

// The value of another lane of the warp; all lanes call.
OUTRIDER_DEVICE float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
OUTRIDER_DEVICE std::int32_t shuffle_xor(std::int32_t value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
OUTRIDER_DEVICE std::uint64_t shuffle_xor(std::uint64_t value, int mask) {
  return __shfl_xor_sync(0xffffffffu, static_cast<unsigned long long>(value), mask);
}

// Adds whole numbers only, as no order changes their sum.
OUTRIDER_DEVICE void atomic_add(std::uint64_t* to, std::uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
OUTRIDER_DEVICE void atomic_max(std::uint64_t* to, std::uint64_t value) {
  atomicMax(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

// sums = begin + weights (16 x 32) * activations (32 x 8, signed), in the fragments of
// mma.m16n8k32; weights are signed or not. begin: of a lane's two columns.
template <bool kSigned>
OUTRIDER_DEVICE void multiply_bytes(std::int32_t (&sums)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2], const std::int32_t (&begin)[2]) {
  if constexpr (kSigned) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%10,%11};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(begin[0]),
          "r"(begin[1]));
  } else {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%10,%11};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(begin[0]),
          "r"(begin[1]));
  }
}
// The same of 16 x 16, signed, and 16 x 8, as mma.m16n8k16.
OUTRIDER_DEVICE void multiply_half(std::int32_t (&sums)[4], const std::uint32_t (&a)[2],
                                   std::uint32_t b, const std::int32_t (&begin)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%7,%8};"
      : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "r"(begin[0]), "r"(begin[1]));
}

// A kernel that is launched beside the one before it in its stream (see Start) begins once all
// blocks of that one called allow_next(), or ended, and waits in wait_for_previous() until all
// before it are done and what they wrote is seen. Before the wait it reads only what no kernel
// writes, and writes nothing but shared memory.
OUTRIDER_DEVICE void allow_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
OUTRIDER_DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Brings the line of 128 bytes into L2, beside the thread.
OUTRIDER_DEVICE void prefetch_line(const void* line) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

// A copy of 16 bytes to shared memory that goes on beside the thread.
OUTRIDER_DEVICE void copy_async(void* to, const void* from) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
}
OUTRIDER_DEVICE void commit_copies() {
  asm volatile("cp.async.commit_group;");
}
template <unsigned kPending>
OUTRIDER_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

#else

inline int thread_index() {
  return static_cast<int>(fibers::thread_index());
}
inline int block_x() {
  return static_cast<int>(fibers::block_index().x);
}
inline int block_y() {
  return static_cast<int>(fibers::block_index().y);
}
inline int block_z() {
  return static_cast<int>(fibers::block_index().z);
}
inline std::byte* shared_memory() {
  return fibers::shared_memory();
}
inline void sync_threads() {
  fibers::sync_threads();
}

inline float multiply(float a, float b) {
  return a * b;
}
inline float add(float a, float b) {
  return a + b;
}
inline float fused(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float divide(float a, float b) {
  return a / b;
}
inline float square_root(float a) {
  return std::sqrt(a);
}
inline float round_even(float a) {
  return std::nearbyint(a);
}
inline float as_float(std::uint32_t bits) {
  float out;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
}
inline std::uint32_t as_bits(float a) {
  std::uint32_t out;
  std::memcpy(&out, &a, sizeof(out));
  return out;
}
inline float widen_f16(std::uint16_t bits) {
  return from_f16(bits);
}

template <class T>
T shuffle_xor(T value, int mask) {
  struct Operand {
    T in, out;
    int mask;
  } mine{value, value, mask};
  fibers::meet_warp(
      [](void* const* lanes) {
        for (int i = 0; i < kWarpLanes; ++i) {
          auto* to = static_cast<Operand*>(lanes[i]);
          to->out = static_cast<const Operand*>(lanes[i ^ to->mask])->in;
        }
      },
      &mine);
  return mine.out;
}

inline void atomic_add(std::uint64_t* to, std::uint64_t value) {
  *to += value;
}
inline void atomic_max(std::uint64_t* to, std::uint64_t value) {
  if (*to < value) *to = value;
}

// kSteps: of four elements along k, 8 or 4. Weights are T: signed or unsigned bytes.
template <int kSteps, class T>
struct BytesOperand {
  std::int32_t* sums;
  const std::uint32_t* a;  // [half][row, row + 8]
  const std::uint32_t* b;
  const std::int32_t* begin;

  static void run(void* const* lanes) {
    constexpr int kDepth = 4 * kSteps;
    std::int16_t weights[16][kDepth], activations[8][kDepth];
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const auto& mine = *static_cast<const BytesOperand*>(lanes[lane]);
      const int row = lane / 4, at = lane % 4 * 4;
      for (int half = 0; half < kSteps / 4; ++half) {
        for (int i = 0; i < 4; ++i) {
          const int k = half * 16 + at + i, shift = 8 * i;
          weights[row][k] = static_cast<T>(mine.a[2 * half] >> shift);
          weights[row + 8][k] = static_cast<T>(mine.a[2 * half + 1] >> shift);
          activations[row][k] = static_cast<std::int8_t>(mine.b[half] >> shift);
        }
      }
    }
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const auto& mine = *static_cast<const BytesOperand*>(lanes[lane]);
      for (int i = 0; i < 4; ++i) {
        const std::int16_t* w = weights[lane / 4 + i / 2 * 8];
        const std::int16_t* x = activations[lane % 4 * 2 + i % 2];
        std::int32_t sum = 0;
        for (int k = 0; k < kDepth; ++k) sum += w[k] * x[k];
        const auto begin = static_cast<std::uint32_t>(mine.begin[i % 2]);  // anything, of no row
        mine.sums[i] = static_cast<std::int32_t>(begin + static_cast<std::uint32_t>(sum));
      }
    }
  }
};

template <bool kSigned>
void multiply_bytes(std::int32_t (&sums)[4], const std::uint32_t (&a)[4],
                    const std::uint32_t (&b)[2], const std::int32_t (&begin)[2]) {
  using Operand = BytesOperand<8, std::conditional_t<kSigned, std::int8_t, std::uint8_t> >;
  Operand mine{sums, a, b, begin};
  fibers::meet_warp(&Operand::run, &mine);
}
inline void multiply_half(std::int32_t (&sums)[4], const std::uint32_t (&a)[2], std::uint32_t b,
                          const std::int32_t (&begin)[2]) {
  BytesOperand<4, std::int8_t> mine{sums, a, &b, begin};
  fibers::meet_warp(&BytesOperand<4, std::int8_t>::run, &mine);
}

// A line that is not there is found.
inline void prefetch_line(const void* line) {
  static_cast<void>(*static_cast<const volatile std::byte*>(line));
}
inline void copy_async(void* to, const void* from) {
  fibers::copy_async(to, from, 16);
}
inline void commit_copies() {
  fibers::commit_copies();
}
inline void allow_next() {}
inline void wait_for_previous() {}
template <unsigned kPending>
void wait_copies() {
  fibers::wait_copies(kPending);
}

#endif

template <class T>
OUTRIDER_DEVICE T larger(T a, T b) {
  return a > b ? a : b;
}
template <class T>
OUTRIDER_DEVICE T smaller(T a, T b) {
  return a < b ? a : b;
}
// Whether it holds in all lanes of the warp; all lanes call.
OUTRIDER_DEVICE bool in_all_lanes(bool value) {
#ifdef __CUDACC__
  return __all_sync(0xffffffffu, value) != 0;
#else
  std::int32_t holds = value ? 1 : 0;
  for (int mask = 16; mask > 0; mask /= 2) holds &= shuffle_xor(holds, mask);
  return holds != 0;
#endif
}
OUTRIDER_DEVICE float widen_bf16(std::uint16_t bits) {
  return as_float(static_cast<std::uint32_t>(bits) << 16);
}

// The same as the CPU's vector_exp() (common/base/vector_math-inl.h), operation by operation; x is
// no NaN.
OUTRIDER_DEVICE float exponential(float x) {
  const float bounded = x > -105.0f ? (x < 89.5f ? x : 89.5f) : -105.0f;
  const float n = round_even(multiply(bounded, 0x1.715476p+0f));
  float r = fused(-n, 0x1.62ep-1f, bounded);
  r = fused(-n, 0x1.0bfbe8p-15f, r);
  float p = 0x1.6a2448p-10f;
  p = fused(p, r, 0x1.1239d4p-7f);
  p = fused(p, r, 0x1.5558f2p-5f);
  p = fused(p, r, 0x1.555492p-3f);
  p = fused(p, r, 0x1.fffffcp-2f);
  const float value = add(fused(multiply(r, r), p, r), 1.0f);
  const auto exponent = static_cast<std::int32_t>(n);
  const std::int32_t first = exponent >> 1;
  const float scale_1 = as_float(static_cast<std::uint32_t>(first + 127) << 23);
  const float scale_2 = as_float(static_cast<std::uint32_t>(exponent - first + 127) << 23);
  return multiply(multiply(value, scale_1), scale_2);
}

// The limits of the device.
inline const DeviceLimits& device_limits() {
#ifdef OUTRIDER_ON_GPU
  return gpu_limits();
#else
  static const DeviceLimits limits{132, 227 << 10, 228 << 10, false};
  return limits;
#endif
}

// The most rows for which the start of a kernel takes as long as its work, for products and for
// kernels of rows and attention, which leave more free for the blocks of the next one.
inline constexpr std::int64_t kMaxFewRows = 8;
inline constexpr std::int64_t kMaxRowsBeside = 64;
inline Start start_for(std::int64_t rows) {
  return rows <= kMaxRowsBeside ? Start::kBesidePrevious : Start::kBehindPrevious;
}

// Runs kKernel, which takes one argument.
template <auto kKernel, class Argument>
void launch(const Grid& grid, [[maybe_unused]] Stream stream, const Argument& argument) {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Argument)>);
#ifdef __CUDACC__
  static_cast<void>(kKernel);  // so that its machine code is made; the host's compiler launches it
#elif defined(OUTRIDER_ON_GPU)
  kernel_on_gpu<kKernel>().launch(grid, stream, &argument);
#else
  fibers::start_grid(static_cast<fibers::WorkQueue*>(stream), {grid.x, grid.y, grid.z},
                     grid.threads, grid.shared_bytes, [=] { kKernel(argument); });
#endif
}

}  // namespace outrider::cuda
