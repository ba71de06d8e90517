// The power and energy that each part of a device takes, from a TOML file:
//
//   name = "Jetson Orin Nano"
//   computes = "gpu"               # "gpu" or "cores": where models compute
//   idle = "4.5 W"                 # the whole device, awake and waiting
//   cores = 6
//   core = "0.9 W"                 # each busy core, above idle
//   gpu = "5 W"                    # the busy GPU, above idle
//   dram = "40 pJ/B"               # a byte that is read or written
//   flash = "1 nJ/B"               # a byte that is read
//   radio-up = "2.3 uJ/B"          # a byte that is sent
//   radio-down = "1.1 uJ/B"
//   radio-tail = "0.24 s"          # how long the radio stays awake after a message
//   radio-tail-power = "0.12 W"    # above idle
//   estimates = ["idle", "core"]   # parts whose figures are nobody's measurement
//
// Thread rule: values; reading is a free function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/enum_names.h"
#include "common/base/status.h"

namespace outrider {

enum class ComputeUnit : std::uint8_t { kCores, kGpu };

template <>
inline constexpr auto enum_names<ComputeUnit> = std::to_array<EnumName<ComputeUnit>>(
    {{ComputeUnit::kCores, "cores"}, {ComputeUnit::kGpu, "gpu"}});

struct DevicePower {
  std::string name;
  ComputeUnit computes = ComputeUnit::kGpu;
  int cores = 1;
  double idle_w = 0;
  double core_w = 0;
  double gpu_w = 0;
  double dram_j_per_byte = 0;
  double flash_j_per_byte = 0;
  double up_j_per_byte = 0;
  double down_j_per_byte = 0;
  double tail_s = 0;
  double tail_w = 0;
  std::vector<std::string> estimates = {};

  // Above idle, while a model computes on so many threads.
  double computing_w(int threads) const {
    return computes == ComputeUnit::kGpu ? gpu_w : core_w * (threads < cores ? threads : cores);
  }
};

// INVALID_ARGUMENT, with file and line, for an unknown key, a part that is missing, a negative
// number, an unknown unit, and an estimate of no part; NOT_FOUND.
Result<DevicePower> read_device_power(const std::string& path);

}  // namespace outrider
