// How long choosing takes a row, by choose() and by its full evaluation (plain_choice.h) in turn.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/stats/statistics.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

struct ChoiceSpeedOptions {
  int turns = 41;     // each times both ways on all rows of a setting
  std::string model;  // its rows too; empty: drawn rows only
};

struct ChoiceSpeed {
  Json settings = Json::array();
  std::vector<Bar> bars;
};

// Drawn rows of 3,072 to 151,936 tokens, peaked and flat; then the rows of a text that the model
// writes by itself. What is measured goes to stderr as it comes. Errors: those of loading the
// model.
Result<ChoiceSpeed> measure_choice_speed(const ChoiceSpeedOptions& options);

}  // namespace outrider
