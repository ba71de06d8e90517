// Which of a machine's GPUs are taken, and why none can be: the part of choosing them that needs no
// GPU.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider::cuda {

struct Gpu {
  std::string name;    // "NVIDIA H100 80GB HBM3"
  int capability = 0;  // 90 for 9.0
};

// The CUDA runtime's report on this machine. Versions are CUDA's, 13020 for 13.2.
struct FoundGpus {
  int runtime = 0;     // that this program has
  int driver = 0;      // the newest that the driver can run; 0: there is no driver
  std::string reason;  // why the GPUs cannot be listed; empty: they are
  std::vector<Gpu> gpus;
};

// Whether the GPUs of these numbers can be taken together. FAILED_PRECONDITION with the reason and
// a remedy if there is no driver, one that is too old, no GPU, none of a number, or one that lacks
// what the kernels use; also if they are of different kinds, which would be as slow as the slowest.
Status check_gpus(const FoundGpus& found, std::span<const int> numbers);

}  // namespace outrider::cuda
