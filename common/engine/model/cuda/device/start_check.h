// Whether the kernels on every device have the CPU's bits: every kernel and every format once, on
// drawn inputs, beside the CPU's own. A fraction of a second on a GPU.
//
// Thread rule: one thread, before the devices do anything else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/engine/model/cuda/device/device_api.h"

namespace outrider::cuda {

struct StartCheck {
  std::int64_t outputs = 0;    // numbers compared
  std::int64_t different = 0;  // with other bits
  std::string first;           // the first kernel that differs
};

// Errors: those of the device.
Result<StartCheck> check_kernels(DeviceApi& api);

}  // namespace outrider::cuda
