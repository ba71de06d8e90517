// Where and in what the torch backend computes. Includes c10: for the torch backend's own files.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>

#include "common/base/status.h"

namespace outrider {

struct TorchDevice {
  c10::Device device{c10::kCPU};
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::string name;  // "torch-cpu", "cuda-sm90": the device class of arithmetic ids
};

// device: "cpu" or "cuda"; dtype: "auto", "f32", "bf16". For cuda this loads libtorch's CUDA
// library, which programs do not link, so that they start without it. Errors: see torch_model.h.
Result<TorchDevice> find_torch_device(const std::string& device, const std::string& dtype,
                                      bool stored_f32);

}  // namespace outrider
