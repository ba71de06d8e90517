// The phones and boards of LEVER, EdgeLLM and LLMCad as tables: a target that is streamed from
// flash in each pass, and a draft that stays in memory.
//
// Thread rule: values and pure functions. Units: milliseconds, bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/emulated/pace.h"
#include "sim/virtual_run.h"

namespace outrider {

//   lever-llama31-8b   LEVER, tables 1 and 2: reading 990.6 ms a pass; computing 93.2, 828 and
//                      1255 ms at 1, 16 and 32 rows
//   lever-qwen3-8b     its table 1 gives reading and one row; 817 and 1229 ms at 16 and 32 rows
//   lever-qwen3-4b, -14b   table 1 gives reading and one row; at 16 and 32 rows the times of
//                      Qwen3-8B in the proportion of what is read
//   mt5-tx2, t5-tx2, gpt2-tx2, llama2-13b-xiaomi10   LLMCad, table 1: one row with reading, and a
//                      step of the small model beside it. A row computes as long as the small
//                      model's step times the parameters; the rest of the printed time is reading.
//
// Our choice, where the papers give no figures: linear interpolation, also beyond 32 rows; each
// further row of a draft's step, and of EdgeLLM's targets, costs 90 % of the first up to ten rows
// of a draft (EdgeLLM, figure 9: ten rows take 9.1 times as long as one), and no more beyond, as
// when it reads a prompt; a draft step of 20 ms beside LEVER's targets; reading and computing are
// spread evenly over the layers, and the output matrix has its share of the weights.
struct NamedFlashPace {
  std::string name;
  FlashPace device;
  double step_ms = 20;
  double step_row = 0.9;  // what a further row of a step costs, of the first
  // How many times as long reading takes while the draft has a part of the memory. EdgeLLM, section
  // IV-G: 15.2 s for Llama 2 where LLMCad's table 1 has 10.1 s.
  double read_beside_draft = 1;
  // The whole target's, for its energy: four bits a weight. 0: of a device whose energy is not
  // modelled.
  double bytes = 0;
};

std::vector<NamedFlashPace> flash_paces();

// INVALID_ARGUMENT lists the names.
Result<NamedFlashPace> find_flash_pace(const std::string& name);

// A draft step's time by rows.
PaceCurve flash_step_curve(const NamedFlashPace& pace);

}  // namespace outrider
