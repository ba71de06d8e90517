// The trees of EdgeLLM and LLMCad with other parameters than theirs: what their figures vary, and
// their parts one by one.
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/decoding/drafting/trees/branch_pacer.h"
#include "common/decoding/drafting/trees/make_planner.h"

namespace outrider {

// The parameters that EdgeLLM's figure 12 varies: the threshold at the start, and its factor where a whole branch
// was accepted. Our choice beside the papers' 0.01 and 0.5: the axes are not in print.
inline constexpr double kStartThresholds[] = {0.3, 0.1, 0.03, 0.01, 0.003, 0.001};
inline constexpr double kRelaxFactors[] = {0.9, 0.7, 0.5, 0.3, 0.1};

// "edgellm-start-0.1", "edgellm-relax-0.7": one parameter is another one.
std::string start_name(double threshold);
std::string relax_name(double factor);

// These, and "edgellm-navigation" and "llmcad-navigation": the tree alone, with a threshold that
// does not adapt. Valid as long as the program runs.
const std::vector<GuestTree>& paced_trees();

}  // namespace outrider
