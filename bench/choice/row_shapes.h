// Rows of logits drawn in the shapes that choosing must stand: a model's, and those that a model
// should not make.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace outrider {

enum class RowShape : std::uint8_t {
  kPeaked,  // a model's: a bell of unlikely tokens, thirty likely ones 18 and less above its middle
  kUnsure,  // the same, 10 above
  kFlat,    // all equal
  kSteps,   // multiples of 1/8 below 2: many ties at the top
  kBimodal,   // two bells 12 apart, every second token in either
  kRising,    // each token likelier than all before it
  kHoles,     // a bell in which half the tokens are -infinity and some are NaN
  kLonely,    // all -infinity but three
  kOverflow,  // huge numbers, one +infinity
  kNothing,   // -infinity and NaN
};
inline constexpr int kNumRowShapes = 10;

std::string_view to_string(RowShape shape);

// The same for the same arguments.
void draw_row(RowShape shape, std::size_t vocab, std::uint64_t seed, std::vector<float>& row);

}  // namespace outrider
