// A DeviceApi whose kernels run by fibers on the CPU: slow, exact, for tests, and for
// `--device host-cuda`.
//
// Work that is put into a stream waits in a graph of what has to be done before it. A seed says
// which of the work that may run does, and when: some at once, some only when synchronize() needs
// it; now and then a stream falls far behind the others. So work that lacks a wait for an event
// runs too early or too late in some order, and gives other results. Each order is the same again
// with the same seed.
//
// It may be several devices. Then a kernel can touch no memory of another one's: the process dies.
//
// Thread rule and errors: as device_api.h. A graph that a stream joined and did not come back from,
// a wait for an event that nothing signals, and an event that stands for work of another device are
// std::logic_error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "common/engine/model/cuda/device/device_api.h"

namespace outrider::cuda {

struct HostDeviceOptions {
  std::uint64_t seed = 0;  // 0: work runs in the order in which it came, when it is waited for
  bool poisons = false;    // memory begins as numbers that no kernel makes; else as zeros
  std::int64_t limit = 0;  // bytes of memory that each device has; 0: as many as the system gives
  bool is_integrated = false;  // its memory is the machine's, of which host_free is free
  std::int64_t host_free = 0;  // bytes
  int devices = 1;
  bool is_fast = false;  // a wait for any work is one for all of it
};

std::unique_ptr<DeviceApi> make_host_device(const HostDeviceOptions& options = {});

}  // namespace outrider::cuda
