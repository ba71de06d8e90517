// The kernels that only the check on a GPU needs: memory filled with numbers, and the device's
// ceilings.
//
// Thread rule: as the cuda backend's kernels. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/engine/model/cuda/device/gpu_kernel.h"

namespace outrider::gpu {

using cuda::Stream;

// Bytes that are numbers below 2 as f16, bf16 and f32; a multiple of 16 of them.
void fill_with_numbers(std::byte* to, std::int64_t bytes, std::uint32_t seed, Stream stream);

// Reads bytes as products do, 16 a thread, and writes one number a block; a multiple of 16 KiB.
void read_bytes(const std::byte* from, std::int64_t bytes, float* out, Stream stream);

// `rounds` of 8 operations in each of 256 threads a block: fused multiply-adds, or products of
// 16 x 32 by 32 x 8 bytes for each warp. out: [blocks * 256].
inline constexpr int kCeilingOperations = 8;
inline constexpr int kCeilingThreads = 256;
void run_fused(int blocks, int rounds, float* out, Stream stream);
void run_byte_products(int blocks, int rounds, float* out, Stream stream);

}  // namespace outrider::gpu

namespace outrider::cuda {

// Their machine code, for add_images().
std::span<const GpuImage> check_images();

}  // namespace outrider::cuda
