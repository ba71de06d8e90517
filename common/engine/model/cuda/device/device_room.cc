// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_room.h"

#include "common/base/free_memory.h"

namespace outrider::cuda {

std::int64_t free_bytes(const FreeMemory& free) {
  return free.is_shared ? free.on_host : free.on_device;
}

std::int64_t room_for_kv(const FreeMemory& free) {
  return free.is_shared ? room_beside_program(free.on_host) : free.on_device / 10 * 9;
}

std::string words_of(const FreeMemory& free) {
  return std::to_string(free_bytes(free) >> 20) +
         (free.is_shared ? " MiB of the machine's, which the GPU shares, are free"
                         : " MiB of the GPU's are free");
}

}  // namespace outrider::cuda
