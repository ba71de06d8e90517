// GPUs as a DeviceApi, by NVIDIA's driver.
//
// Thread rule: as device_api.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "common/base/status.h"
#include "common/engine/model/cuda/device/device_api.h"

namespace outrider::cuda {

// The machine's GPUs of these numbers; none: the first. Errors: those of check_gpus().
Result<std::unique_ptr<DeviceApi>> make_cuda_device(std::span<const int> numbers = {});

}  // namespace outrider::cuda
