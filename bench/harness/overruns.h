// How well emulated paces were kept. A pass that takes longer by itself than its pace is not
// shortened: where there are many, the run is not the device that it says.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/json.h"
#include "common/model/emulated/paced_model.h"

namespace outrider {

// Of the passes of a target or the steps of a draft.
inline constexpr double kMaxOverruns = 0.01;

double overrun_share(const PaceCounts& counts);

inline bool kept_pace(const PaceCounts& counts) {
  return overrun_share(counts) <= kMaxOverruns;
}

PaceCounts operator+(const PaceCounts& one, const PaceCounts& other);

// {"passes": .., "overruns": ..}
Json to_json(const PaceCounts& counts);

// For people, of a pace that was not kept; whose: "draft at rtx-68m-7b".
std::string overrun_line(const std::string& whose, const PaceCounts& counts);

}  // namespace outrider
