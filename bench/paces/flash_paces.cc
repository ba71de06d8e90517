// SPDX-License-Identifier: Apache-2.0
#include "bench/paces/flash_paces.h"

#include <utility>

namespace outrider {
namespace {

// EdgeLLM, figure 9: a further row of a draft step costs that share of the first.
constexpr double kDraftRow = 0.9;
constexpr int kDraftRows = 10;
constexpr int kPassRows = 512;

// Straight lines from 1 to 16 to 32 rows, and on.
PaceCurve pass_curve(double one, double sixteen, double thirty_two) {
  const double slope = (thirty_two - sixteen) / 16;
  return *PaceCurve::create({{1, one},
                             {16, sixteen},
                             {32, thirty_two},
                             {kPassRows, thirty_two + slope * (kPassRows - 32)}});
}

std::vector<NamedFlashPace> make_paces() {
  // Output matrix: 128,256 x 4,096 of 8.03 G weights; 151,936 x 4,096 of 8.19 G.
  return {{"lever-llama31-8b",
           {.layers = 32,
            .read_ms = 990.6,
            .head_share = 0.065,
            .compute = pass_curve(93.2, 828, 1255)},
           20},
          {"lever-qwen3-8b",
           {.layers = 36,
            .read_ms = 953.4,
            .head_share = 0.076,
            .compute = pass_curve(96.6, 817, 1229)},
           20}};
}

}  // namespace

Result<NamedFlashPace> find_flash_pace(const std::string& name) {
  std::string names;
  for (NamedFlashPace& pace : make_paces()) {
    if (pace.name == name) return std::move(pace);
    names += (names.empty() ? "" : ", ") + pace.name;
  }
  return invalid_argument("--pace " + name + ": expected one of " + names);
}

PaceCurve flash_step_curve(double step_ms) {
  const double last = step_ms * (1 + kDraftRow * (kDraftRows - 1));
  return *PaceCurve::create({{1, step_ms}, {kDraftRows, last}});
}

}  // namespace outrider
