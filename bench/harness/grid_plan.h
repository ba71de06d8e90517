// What an experiment over real processes runs (grid.h): settings, variants and prompts.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/emulated/pace.h"
#include "common/sampling/sampling.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

struct GridSetting {
  std::string name;
  PaceCurve pass;        // of the target; empty: unpaced
  double exit_cost = 1;  // how many times as long a pass with exits takes
  PaceCurve step;        // of the draft; empty: unpaced
  double one_way_ms = 0;
};

struct GridVariant {
  std::string name;
  Strategy strategy = Strategy::kAr;
  int gamma = 0;            // draft length; 0: the plan's
  bool uses_exits = false;  // if its edge asks for them
  std::vector<std::string> edge_flags;    // after the strategy's own
  std::vector<std::string> server_flags;  // variants with the same ones share a server
};

// The variant of a strategy as it is compared: "fsd" is the paper's, on a server of its own whose
// exits are not calibrated.
GridVariant variant_of(Strategy strategy);

struct GridPlan {
  std::string target;  // directories
  std::string draft;
  std::string dtype = "auto";
  std::string exits = "auto";  // of the target, for outrider-server
  std::vector<std::string> prompts;
  int max_tokens = 200;
  int gamma = 4;
  SamplingParams sampling;
  std::uint64_t seed = 0;
  double time_scale = 1;
  std::vector<GridSetting> settings;
  std::vector<GridVariant> variants;
};

}  // namespace outrider
