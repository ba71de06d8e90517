// Brings weights to one device, in the forms that its kernels read. Each upload waits, so what it
// reads may change afterwards.
//
// Thread rule: one thread. Ownership: the memory on the device belongs to the given list.
// Errors: RESOURCE_EXHAUSTED if it does not fit; those of the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cuda/device/device_api.h"

namespace outrider::cuda {

// UNIMPLEMENTED where no kernel reads the matrix's blocks.
Status check_readable(const WeightMatrix& matrix);

class DeviceUpload final {
 public:
  DeviceUpload(DeviceApi& api, int device, std::vector<DeviceMemory>& memory)
      : api_(api),
        device_(device),
        memory_(memory),
        stream_(api.new_stream(device)),
        done_(api.new_event(device)) {}

  // The matrix with its data on the device. Errors: also those of check_readable().
  Result<WeightMatrix> matrix(const WeightMatrix& from);
  // Null if there are none.
  Result<const float*> floats(std::span<const float> from);

 private:
  Result<const std::byte*> bytes(const void* from, std::int64_t count);

  DeviceApi& api_;
  const int device_;
  std::vector<DeviceMemory>& memory_;
  const Stream stream_;
  const Event done_;
  std::vector<std::byte> panels_;
};

}  // namespace outrider::cuda
