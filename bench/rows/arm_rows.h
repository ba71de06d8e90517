// Runs the outrider-rows built for 64-bit Arm, in an emulator if this CPU is not Arm.
//
// Thread rule: blocks until the tool has ended. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

struct ArmRowsRequest {
  std::string tool;   // path of outrider-rows
  std::string model;  // directory
  std::string dtype;
  std::string kv_dtype = "f32";
  std::string kernel = "auto";
  int cases = 1;
  Position context = 0;  // make_row_case()
};

// The rows' hashes by name. NOT_FOUND if the tool or the emulator that it needs is missing.
Result<std::map<std::string, std::uint64_t>> run_arm_rows(const ArmRowsRequest& request);

}  // namespace outrider
