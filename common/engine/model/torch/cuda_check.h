// Throws a CUDA error as an exception. For files that nvcc compiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace outrider {

// Throws std::runtime_error with CUDA's reason.
inline void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
  }
}

}  // namespace outrider
