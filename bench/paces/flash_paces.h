// The devices of LEVER ("Speculative LLM Inference on Smartphones", tables 1 and 2), as tables: a
// target that is streamed from flash in each pass.
//
//   lever-llama31-8b   reading 990.6 ms a pass; computing 93.2, 828 and 1255 ms at 1, 16, 32 rows
//   lever-qwen3-8b     its table 1 gives reading and one row; 817 and 1229 ms at 16 and 32 rows
//
// Chosen, where the paper says nothing: straight lines between the points and on beyond 32 rows; a
// draft step of 20 ms for a row and 90 % of that for each row more up to ten (EdgeLLM, figure 9:
// ten rows take 9.1 times as long as one; beyond, as when it reads a prompt, no more); reading and
// computing are spread evenly over the layers, the output matrix apart by its share of the weights.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/sim/flash_device.h"
#include "common/base/status.h"

namespace outrider {

struct NamedFlashPace {
  std::string name;
  FlashPace device;
  double step_ms = 20;
};

// INVALID_ARGUMENT lists the names.
Result<NamedFlashPace> find_flash_pace(const std::string& name);

// Of so many rows in a step.
PaceCurve flash_step_curve(double step_ms);

}  // namespace outrider
