// SPDX-License-Identifier: Apache-2.0
#include "bench/choice/row_shapes.h"

#include <limits>

#include "emulation/random/random.h"

namespace outrider {
namespace {

constexpr float kHole = -std::numeric_limits<float>::infinity();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kLikely = 30;

std::uint64_t draw(std::uint64_t number) {
  return scrambled(number + kGoldenStep);
}

// About normal, of variance 1: the sum of eight bytes.
float bell(std::uint64_t random) {
  float sum = 0;
  for (int byte = 0; byte < 8; ++byte) sum += static_cast<float>(random >> 8 * byte & 0xff);
  return (sum - 1020.0f) / 209.0f;
}

float value_of_shape(RowShape shape, std::size_t token, std::uint64_t random) {
  switch (shape) {
    case RowShape::kPeaked:
    case RowShape::kUnsure:
      return 2.5f * bell(random);
    case RowShape::kFlat:
      return 1.25f;
    case RowShape::kSteps:
      return static_cast<float>(random % 16) / 8.0f;
    case RowShape::kBimodal:
      return bell(random) - (token % 2 == 0 ? 12.0f : 0.0f);
    case RowShape::kRising:
      return static_cast<float>(token) * 0x1p-7f;
    case RowShape::kHoles:
      if (random % 64 == 0) return kNoNumber;
      return random % 2 == 0 ? kHole : 2.0f * bell(random);
    case RowShape::kOverflow:
      return bell(random) * 3e37f;
    case RowShape::kLonely:
    case RowShape::kNothing:
      return kHole;
  }
  return 0;
}

void add_likely(float highest, std::uint64_t seed, std::vector<float>& row) {
  for (std::size_t i = 0; i < kLikely; ++i) {
    const std::uint64_t random = draw(seed + i);
    row[random % row.size()] = highest - static_cast<float>(i) / 2 + bell(draw(random));
  }
}

}  // namespace

std::string_view to_string(RowShape shape) {
  switch (shape) {
    case RowShape::kPeaked:
      return "peaked";
    case RowShape::kUnsure:
      return "unsure";
    case RowShape::kFlat:
      return "flat";
    case RowShape::kSteps:
      return "steps";
    case RowShape::kBimodal:
      return "bimodal";
    case RowShape::kRising:
      return "rising";
    case RowShape::kHoles:
      return "holes";
    case RowShape::kLonely:
      return "lonely";
    case RowShape::kOverflow:
      return "overflow";
    case RowShape::kNothing:
      return "nothing";
  }
  return "";
}

void draw_row(RowShape shape, std::size_t vocab, std::uint64_t seed, std::vector<float>& row) {
  const std::uint64_t base = draw(seed);
  row.resize(vocab);
  for (std::size_t i = 0; i < vocab; ++i) row[i] = value_of_shape(shape, i, draw(base + i));
  if (shape == RowShape::kPeaked) add_likely(18, ~base, row);
  if (shape == RowShape::kUnsure) add_likely(10, ~base, row);
  if (shape == RowShape::kLonely) {
    for (std::uint64_t i = 0; i < 3; ++i) row[draw(~base + i) % vocab] = -90.0f - i;
  }
  if (shape == RowShape::kOverflow) row[base % vocab] = -kHole;
  if (shape == RowShape::kNothing) row[base % vocab] = kNoNumber;
}

}  // namespace outrider
