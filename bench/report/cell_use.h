// What the answers of a cell took, for its costs.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "bench/cost/cell_cost.h"
#include "bench/harness/answer.h"

namespace outrider {

// The mean of the answers.
AnswerUse use_of(std::span<const EdgeAnswer* const> answers);

}  // namespace outrider
