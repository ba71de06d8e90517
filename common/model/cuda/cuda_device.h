// A GPU as a DeviceApi, by the CUDA runtime.
//
// Thread rule: as device_api.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "common/base/status.h"
#include "common/model/cuda/device_api.h"

namespace outrider::cuda {

// The machine's GPU of that number. FAILED_PRECONDITION with the reason and a remedy: no driver,
// one that is too old, no such GPU, or one that the kernels were not compiled for.
Result<std::unique_ptr<DeviceApi>> make_cuda_device(int number = 0);

}  // namespace outrider::cuda
