// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/device_kernels.h"

#include "common/engine/model/cuda/kernels/device.h"

namespace outrider::gpu {
namespace {

constexpr int kFillThreads = 256;
constexpr int kReadThreads = 256;
constexpr int kReadPieces = 4;  // of 16 bytes, a thread's at one time
constexpr unsigned kFillBlocks = 4096;
constexpr unsigned kReadBlocks = 132 * 8;

struct Filled {
  cuda::Four* to;
  std::int64_t count;
  std::uint32_t seed;
};
OUTRIDER_KERNEL fill(OUTRIDER_ARGUMENT Filled filled) {
  const std::int64_t step = std::int64_t{kFillBlocks} * kFillThreads;
  for (std::int64_t i =
           static_cast<std::int64_t>(cuda::block_x()) * kFillThreads + cuda::thread_index();
       i < filled.count; i += step) {
    std::uint32_t word[4];
    for (int w = 0; w < 4; ++w) {
      std::uint32_t x = static_cast<std::uint32_t>(i * 4 + w) * 0x9e3779b1u + filled.seed;
      x = (x ^ (x >> 16)) * 0x85ebca6bu;
      x = (x ^ (x >> 13)) * 0xc2b2ae35u;
      word[w] = (x ^ (x >> 16)) & 0x3f3f3f3fu;
    }
    filled.to[i] = {word[0], word[1], word[2], word[3]};
  }
}

struct ReadBytes {
  const cuda::Four* from;
  std::int64_t count;
  float* out;
};
OUTRIDER_KERNEL read_all(OUTRIDER_ARGUMENT ReadBytes bytes) {
  constexpr int kBlock = kReadThreads * kReadPieces;
  std::uint32_t sum = 0;
  for (std::int64_t at = static_cast<std::int64_t>(cuda::block_x()) * kBlock; at < bytes.count;
       at += std::int64_t{kReadBlocks} * kBlock) {
    cuda::Four piece[kReadPieces];
    OUTRIDER_UNROLLED
    for (int i = 0; i < kReadPieces; ++i) {
      piece[i] = bytes.from[at + i * kReadThreads + cuda::thread_index()];
    }
    OUTRIDER_UNROLLED
    for (int i = 0; i < kReadPieces; ++i) sum += piece[i].x ^ piece[i].y ^ piece[i].z ^ piece[i].w;
  }
  if (sum == 1) bytes.out[cuda::block_x()] = 1.0f;
}

struct Ceiling {
  int rounds;
  float* out;
};
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kCeilingThreads, 4) fuse(OUTRIDER_ARGUMENT Ceiling of) {
  const int thread = cuda::block_x() * kCeilingThreads + cuda::thread_index();
  float sums[kCeilingOperations];
  const float a = 1.0f + static_cast<float>(thread) * 1e-9f, b = static_cast<float>(thread) * 1e-3f;
  for (float& sum : sums) sum = b;
  for (int r = 0; r < of.rounds; ++r) {
    OUTRIDER_UNROLLED
    for (float& sum : sums) sum = cuda::fused(sum, a, b);
  }
  float total = 0.0f;
  for (const float sum : sums) total += sum;
  of.out[thread] = total;
}

// cuda::multiply_bytes() onto the sums.
OUTRIDER_DEVICE void add_products(std::int32_t (&sums)[4], const std::uint32_t (&a)[4],
                                  const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

OUTRIDER_KERNEL OUTRIDER_BOUNDS(kCeilingThreads, 4) multiply_all(OUTRIDER_ARGUMENT Ceiling of) {
  const int thread = cuda::block_x() * kCeilingThreads + cuda::thread_index();
  std::int32_t sums[kCeilingOperations][4] = {};
  const std::uint32_t w = static_cast<std::uint32_t>(thread) * 0x01010101u;
  const std::uint32_t a[4] = {w, w + 1, w + 2, w + 3}, b[2] = {w + 5, w + 7};
  for (int r = 0; r < of.rounds; ++r) {
    OUTRIDER_UNROLLED
    for (auto& sum : sums) add_products(sum, a, b);
  }
  std::int32_t total = 0;
  for (const auto& sum : sums) total += sum[0] + sum[1] + sum[2] + sum[3];
  of.out[thread] = static_cast<float>(total);
}

}  // namespace

void fill_with_numbers(std::byte* to, std::int64_t bytes, std::uint32_t seed, Stream stream) {
  cuda::launch<&fill>({kFillBlocks, 1, 1, kFillThreads, 0}, stream,
                      Filled{reinterpret_cast<cuda::Four*>(to), bytes / 16, seed});
}

void read_bytes(const std::byte* from, std::int64_t bytes, float* out, Stream stream) {
  cuda::launch<&read_all>({kReadBlocks, 1, 1, kReadThreads, 0}, stream,
                          ReadBytes{reinterpret_cast<const cuda::Four*>(from), bytes / 16, out});
}

void run_fused(int blocks, int rounds, float* out, Stream stream) {
  cuda::launch<&fuse>({static_cast<unsigned>(blocks), 1, 1, kCeilingThreads, 0}, stream,
                      Ceiling{rounds, out});
}

void run_byte_products(int blocks, int rounds, float* out, Stream stream) {
  cuda::launch<&multiply_all>({static_cast<unsigned>(blocks), 1, 1, kCeilingThreads, 0}, stream,
                              Ceiling{rounds, out});
}

}  // namespace outrider::gpu
