// The pace of a real device, as `outrider-bench measure-device` finds it and `--pace-from` emulates
// it elsewhere:
//
//   device = "Jetson Orin Nano"
//   [draft]                      # of the edge: T_p
//   model = "smollm2"
//   rows = [1, 2, 4, 8]
//   ms = [8.1, 8.3, 8.9, 10.2]   # medians
//   [target]                     # of the server: T_q
//   model = "smollm2-1.7b"
//   rows = [1, 5, 16]
//   ms = [21.0, 24.5, 40.1]
//   exit-cost = 1.08             # how many times as long a pass with exits takes; 1
//
// Thread rule: values; reading and text only. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "bench/paces/paces.h"
#include "common/base/status.h"
#include "common/model/emulated/pace.h"

namespace outrider {

struct MeasuredTimes {
  std::string model;
  PaceCurve ms;          // by rows
  double exit_cost = 1;  // of a target
};

struct DevicePace {
  std::string device;
  std::optional<MeasuredTimes> draft = {};
  std::optional<MeasuredTimes> target = {};
};

std::string to_toml(const DevicePace& pace);

// INVALID_ARGUMENT, with the line, for what is no such file; NOT_FOUND.
Result<DevicePace> read_device_pace(const std::string& path);

// One pace of one file with both parts, or of two with one each, named after the files. The link's
// delay is nobody's to say. INVALID_ARGUMENT for a part that is missing or stands twice.
Result<PaperPace> pace_from_files(std::span<const std::string> paths);

}  // namespace outrider
