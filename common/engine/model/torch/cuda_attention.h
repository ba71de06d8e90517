// Our CUDA parts: attention over slot lists, and the device's name. Includes neither CUDA nor
// libtorch.
//
// Thread rule: the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace outrider {

// The card for arithmetic ids, with the number of its multiprocessors: "sm90-132".
// kFailedPrecondition with CUDA's reason where there is no usable device.
Result<std::string> find_cuda_device();

// Rows of one cache; all pointers to device memory, contiguous.
struct CudaAttention {
  int rows = 0;
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int longest = 0;  // the most positions of a row
  float scale = 1;
  const float* queries = nullptr;       // [rows, heads, head_dim]
  const float* keys = nullptr;          // [slots, kv_heads, head_dim]
  const float* values = nullptr;        // [slots, kv_heads, head_dim]
  const std::int32_t* table = nullptr;  // [rows, 2 + longest]: first visible position, end, slots
  float* partials = nullptr;            // [cuda_partial_floats()]
  float* out = nullptr;                 // [rows, heads, head_dim]
};

std::size_t cuda_partial_floats(const CudaAttention& attention);

// Queues the kernels on the default stream, which is libtorch's too. Positions are split at
// multiples of a fixed number; each part is summed in position order, then the parts in order. So a
// row's bits depend on its own positions only. Throws std::runtime_error with CUDA's reason.
void cuda_attend(const CudaAttention& attention);

}  // namespace outrider
