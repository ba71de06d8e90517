// How much of a device's memory keys and values may take. An integrated GPU, as a Jetson's, has
// none of its own: what it takes, the machine has less. Its memory is then counted as the
// machine's, once, and the program keeps what it needs itself.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace outrider::cuda {

// Free bytes of a device's memory and of the machine's.
struct FreeMemory {
  std::int64_t on_device = 0;  // as the driver says; 0: the machine gives it page by page
  std::int64_t on_host = 0;    // free_memory(); looked at only where it is shared
  bool is_shared = false;      // the device's memory is the machine's
};

// The bytes that the device may still be given. Of shared memory the machine's count holds: the
// driver's leaves out what the page cache of files, such as the weights', would give back.
std::int64_t free_bytes(const FreeMemory& free);

// Bytes for keys and values where nothing else bounds them; 0: memory is given page by page, so
// there is no bound.
std::int64_t room_for_kv(const FreeMemory& free);

// "12 MiB of the GPU's are free"
std::string words_of(const FreeMemory& free);

}  // namespace outrider::cuda
