// Settings that a seed draws, for claims that must hold everywhere and not only at selected
// settings.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/harness/grid_flags.h"
#include "bench/harness/grid_plan.h"
#include "common/base/status.h"
#include "emulation/path/link_profile.h"

namespace outrider {

// Each combination is a setting. Devices are those of FSD's table 9, slowed down by a factor.
struct DrawnFrom {
  std::vector<LinkProfile> networks;
  std::vector<double> target_scales = {1, 2, 4};
  std::vector<double> draft_scales = {1, 4, 16};
  std::vector<double> temperatures = {0, 0.7};
};

// `count` different settings in the order drawn; the same seed draws the same on every machine.
// INVALID_ARGUMENT if there are fewer.
Result<std::vector<GridSetting>> draw_settings(const DrawnFrom& from, std::size_t count,
                                               std::uint64_t seed);

// The flags of such a check.
struct DrawnFlags {
  GridPlan plan;  // its models, seed and length; neither settings nor prompts
  std::string prompts = kPromptSets;
  std::size_t num_prompts = 4;
  std::string networks;
  std::size_t settings = 8;
};

// The demo pair, 48 tokens.
DrawnFlags drawn_flags();
void add_drawn_flags(CLI::App& command, DrawnFlags& flags);

}  // namespace outrider
