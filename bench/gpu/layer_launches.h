// Launches of whole stages on drawn memory, to be timed: attention, the kernels of rows, and all
// launches of a pass of a 7B shape. Their results are not looked at.
//
// Thread rule: one thread. Ownership: their memory is a CudaMemory's, which outlives them
// uncleared. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/gpu/cuda_device.h"
#include "common/engine/model/cuda/cases/kernel_cases.h"
#include "common/engine/model/cuda/kernels/kernels.h"

namespace outrider::gpu {

const WeightKind& kind_named(const std::string& name);
// A matrix of drawn numbers as the cuda backend takes it.
WeightMatrix drawn_on_device(CudaMemory& memory, const WeightKind& kind, std::int64_t outputs,
                             std::int64_t inputs, std::uint32_t seed);
void copy_on_device(std::byte* to, const std::byte* from, std::int64_t bytes, void* stream);

// Rows of one session that see the same positions, in bf16.
class AttentionLaunch final {
 public:
  AttentionLaunch(CudaMemory& memory, const cuda::Heads& shape, std::int64_t rows,
                  std::int32_t positions);

  // The bytes of the keys and values.
  std::int64_t bytes() const { return bytes_; }
  const cuda::Attention& attention() const { return attention_; }
  void run(void* stream) const;

 private:
  cuda::Attention attention_;
  std::int64_t bytes_ = 0;
  float* out_ = nullptr;
};

// Kernels of rows of a 7B shape.
class RowLaunches final {
 public:
  RowLaunches(CudaMemory& memory, std::int64_t rows);

  void norm(void* stream) const;
  void silu(void* stream) const;
  void place(void* stream) const;

 private:
  cuda::RowsOf hidden_, gate_;
  float *weight_, *up_, *normed_;
  std::byte* quantized_;
  cuda::HeadPlacement placement_;
};

// Llama 2 7B: 32 layers and the output matrix, each with memory of its own.
class PassLaunches final {
 public:
  static constexpr std::int64_t kPositions = 1024;

  PassLaunches(CudaMemory& memory, const WeightKind& kind);

  // The bytes of all weights, keys and values.
  std::int64_t bytes() const { return bytes_; }
  // Before run() of as many rows, of one session.
  void prepare(std::int64_t rows);
  void run(void* stream) const;

 private:
  struct Layer {
    WeightMatrix q, k, v, o, gate, up, down;
    cuda::KvPlanes planes;
  };
  void run_layer(const Layer& layer, void* stream) const;
  MatmulInput input(std::int64_t inputs, const float* values) const;

  CudaMemory& memory_;
  const bool is_quantized_;
  std::vector<Layer> layers_;
  WeightMatrix head_;
  std::int64_t bytes_ = 0;
  float *hidden_, *weight_, *normed_, *flat_, *rotated_, *attended_, *gate_, *up_, *logits_;
  std::byte* quantized_;
  cuda::HeadPlacement placement_;
  // The rows of the last prepare().
  std::int64_t rows_ = 0;
  cuda::Attention attention_;
};

}  // namespace outrider::gpu
