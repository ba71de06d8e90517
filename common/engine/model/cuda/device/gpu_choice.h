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

// Versions are CUDA's, 13020 for 13.2.

// Numbers of GPUs are below it.
inline constexpr int kMaxGpus = 64;

struct Gpu {
  std::string name;    // "NVIDIA H100 80GB HBM3"
  int capability = 0;  // 90 for 9.0
};

// The driver's report on this machine.
struct FoundGpus {
  int driver = 0;      // the newest CUDA that the driver can run; 0: there is no driver
  std::string reason;  // why the GPUs cannot be listed; empty: they are
  std::vector<Gpu> gpus;
};

// Machine code that this program has.
struct GpuCode {
  int architecture = 0;  // 87 for sm_87
  int toolkit = 0;       // that made it; drivers run that of their own major version and before
};

// The code that a GPU runs: that of its own architecture, else the newest of the same major one
// before it, where both are of GPUs in cards, as Jetson Orin's 87 is not. Null: there is none.
const GpuCode* code_for(int capability, std::span<const GpuCode> made);

// Whether the GPUs of these numbers can be taken together. made: at least one. FAILED_PRECONDITION
// with the reason and a remedy if there is no driver, one that is too old, no GPU, none of a
// number, or one that lacks what the kernels use or for which none were compiled; also if they are
// of different kinds, which would be as slow as the slowest.
Status check_gpus(const FoundGpus& found, std::span<const int> numbers,
                  std::span<const GpuCode> made);

}  // namespace outrider::cuda
