// How fast the kernels are on a GPU, beside what its memory and units can do.
//
// Thread rule: one thread. Errors: as cuda_device.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "bench/gpu/cuda_device.h"

namespace outrider::gpu {

struct Ceilings {
  double copy_bytes = 0;  // a second; read and written ones
  double read_bytes = 0;
  double fused = 0;          // multiply-adds a second
  double byte_products = 0;  // of 8-bit numbers, multiply-adds a second
};

class Speed final {
 public:
  // memory outlives this and is cleared by it. is_quick: fewer shapes and shorter runs.
  Speed(CudaMemory& memory, const DeviceFacts& facts, bool is_quick)
      : memory_(memory), facts_(facts), is_quick_(is_quick) {}

  nlohmann::json ceilings();
  // Products of 7B and 8B shapes for each kind and number of rows; the ways of cutting them.
  nlohmann::json products();
  nlohmann::json cuts();
  nlohmann::json attention();
  nlohmann::json row_kernels();
  // The launches of whole passes of a 7B shape, on drawn weights, as one graph each.
  nlohmann::json passes();

 private:
  double seconds() const { return is_quick_ ? 0.004 : 0.015; }

  CudaMemory& memory_;
  const DeviceFacts& facts_;
  const bool is_quick_;
  Ceilings ceilings_;
};

}  // namespace outrider::gpu
