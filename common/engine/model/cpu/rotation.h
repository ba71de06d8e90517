// The angles of the rotary position embedding, which every backend takes from here: with the same
// bits on every CPU.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "common/base/types.h"

namespace outrider {

// Cosine and sine of position * frequencies[i], for each pair of a head's elements, as transformers
// computes them. The angle is rounded to f32, as transformers does: at position 100 000 that
// rounding moves it by thousandths, so it belongs to the model's definition. Sine and cosine, times
// `factor`, are then exact to f32.
//
// cos and sin: [frequencies.size()]. 0 <= position, and every angle is at most 2^20.
void fill_rotation(std::span<const float> frequencies, double factor, Position position, float* cos,
                   float* sin);

}  // namespace outrider
