// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "common/engine/model/torch/cuda_attention.h"

#include "common/engine/model/torch/cuda_check.h"

namespace outrider {
namespace {

// Positions of one part. Parts begin at multiples of it, for any length and window of the row.
constexpr int kSplit = 256;
constexpr int kThreads = 256;
constexpr int kWarp = 32;

__host__ __device__ int num_splits(int positions) {
  return (positions + kSplit - 1) / kSplit;
}

// A part's result: the largest score, the sum of exp(score - largest), and head_dim weighted sums.
__device__ float* partial(const CudaAttention& a, int row, int head, int split) {
  const std::size_t index =
      (static_cast<std::size_t>(row) * a.heads + head) * num_splits(a.longest) + split;
  return a.partials + index * (a.head_dim + 2);
}

__device__ float warp_sum(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// scores[i] for the part's positions; masked ones are -inf. Each warp computes a position at a
// time.
__device__ void fill_scores(const CudaAttention& a, int row, int head, int split, float* scores) {
  const std::int32_t* line = a.table + static_cast<std::size_t>(row) * (a.longest + 2);
  const float* query = a.queries + (static_cast<std::size_t>(row) * a.heads + head) * a.head_dim;
  const int kv_head = head / (a.heads / a.kv_heads);
  const int lane = threadIdx.x % kWarp;
  for (int i = threadIdx.x / kWarp; i < kSplit; i += kThreads / kWarp) {
    const int position = split * kSplit + i;
    const bool visible = position >= line[0] && position < line[1];
    float sum = 0;
    if (visible) {
      const std::size_t slot = static_cast<std::size_t>(line[2 + position]);
      const float* key = a.keys + (slot * a.kv_heads + kv_head) * a.head_dim;
      for (int d = lane; d < a.head_dim; d += kWarp) sum += query[d] * key[d];
    }
    sum = warp_sum(sum);
    if (lane == 0) scores[i] = visible ? sum * a.scale : -INFINITY;
  }
}

// One block per row, head and part.
__global__ void __launch_bounds__(kThreads) attend_part(CudaAttention a) {
  __shared__ float scores[kSplit];
  const int row = blockIdx.x;
  const int head = blockIdx.y;
  const int split = blockIdx.z;
  const std::int32_t* line = a.table + static_cast<std::size_t>(row) * (a.longest + 2);
  const int begin = split * kSplit;
  // True or false for the whole block.
  if (begin >= line[1] || begin + kSplit <= line[0]) return;
  fill_scores(a, row, head, split, scores);
  __syncthreads();
  float largest = -INFINITY;
  for (int i = 0; i < kSplit; ++i) largest = fmaxf(largest, scores[i]);
  __syncthreads();
  for (int i = threadIdx.x; i < kSplit; i += kThreads) scores[i] = expf(scores[i] - largest);
  __syncthreads();
  float* result = partial(a, row, head, split);
  const int kv_head = head / (a.heads / a.kv_heads);
  const int from = max(line[0] - begin, 0);
  const int to = min(line[1] - begin, kSplit);
  for (int d = threadIdx.x; d < a.head_dim; d += kThreads) {
    float sum = 0;
    for (int i = from; i < to; ++i) {
      const std::size_t slot = static_cast<std::size_t>(line[2 + begin + i]);
      sum += scores[i] * a.values[(slot * a.kv_heads + kv_head) * a.head_dim + d];
    }
    result[2 + d] = sum;
  }
  if (threadIdx.x == 0) {
    float total = 0;
    for (int i = from; i < to; ++i) total += scores[i];
    result[0] = largest;
    result[1] = total;
  }
}

// One block per row and head: joins the parts in position order.
__global__ void __launch_bounds__(kThreads) join_parts(CudaAttention a) {
  const int row = blockIdx.x;
  const int head = blockIdx.y;
  const std::int32_t* line = a.table + static_cast<std::size_t>(row) * (a.longest + 2);
  const int first = line[0] / kSplit;
  const int end = num_splits(line[1]);
  float largest = -INFINITY;
  for (int s = first; s < end; ++s) largest = fmaxf(largest, partial(a, row, head, s)[0]);
  for (int d = threadIdx.x; d < a.head_dim; d += kThreads) {
    float total = 0;
    float sum = 0;
    for (int s = first; s < end; ++s) {
      const float* part = partial(a, row, head, s);
      const float weight = expf(part[0] - largest);
      total += weight * part[1];
      sum += weight * part[2 + d];
    }
    a.out[(static_cast<std::size_t>(row) * a.heads + head) * a.head_dim + d] = sum / total;
  }
}

}  // namespace

Result<std::string> find_cuda_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    const std::string reason = error == cudaSuccess ? "none found" : cudaGetErrorString(error);
    return failed_precondition("device torch-cuda: no usable GPU (" + reason +
                               "); nvidia-smi lists what the driver sees; or use --device cpu");
  }
  cudaDeviceProp properties;
  const cudaError_t known = cudaGetDeviceProperties(&properties, 0);
  if (known != cudaSuccess) {
    return failed_precondition(std::string("device torch-cuda: ") + cudaGetErrorString(known));
  }
  return "sm" + std::to_string(properties.major) + std::to_string(properties.minor) + "-" +
         std::to_string(properties.multiProcessorCount);
}

std::size_t cuda_partial_floats(const CudaAttention& attention) {
  return static_cast<std::size_t>(attention.rows) * static_cast<std::size_t>(attention.heads) *
         static_cast<std::size_t>(num_splits(attention.longest)) *
         static_cast<std::size_t>(attention.head_dim + 2);
}

void cuda_attend(const CudaAttention& attention) {
  const dim3 parts(attention.rows, attention.heads, num_splits(attention.longest));
  attend_part<<<parts, kThreads>>>(attention);
  check_cuda(cudaGetLastError());
  join_parts<<<dim3(attention.rows, attention.heads), kThreads>>>(attention);
  check_cuda(cudaGetLastError());
}

}  // namespace outrider
