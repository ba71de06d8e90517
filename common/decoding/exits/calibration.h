// Calibrated confidence of early exits: from the margins of an exit's walk to the probability that
// the walk names the verdict's whole outcome, i.e. leaf and next token.
//
//   q(row)     = logistic(slope * margin + spread_slope * spread + odds_slope * odds + offset)
//                with slopes and offset by kind of row
//   confidence = outcome(q(row 1) * q(row 2) * ..)              monotone
//
// margin: the perturbed score of the exit's choice minus that of its runner-up (at T = 0 of
// logits), so it contains the same noise as the target's choice. spread: how many tokens are
// plausible at all; where many are, the same margin means less. kind: whether a drafted token
// agrees with the exit's choice, which says more than any margin. odds: how sure the edge is of
// that token (the confidence sent with its node), which separates easy text from hard.
//
// A DraftPrior raises a drafted token's score in the exit's choice, the more the surer the edge is:
// two models that both favour a token err more rarely than either alone.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace outrider {

// How the exit's choice at a row relates to the pass's nodes.
enum class RowKind : unsigned char {
  kDrafted = 0,    // the choice is a child of the row
  kCorrected = 1,  // the row has children, but the choice is none of them
  kBeyond = 2,     // the row has no children
};
inline constexpr std::size_t kRowKinds = 3;

inline constexpr float kMaxMargin = 30.0f;

struct RowEvidence {
  RowKind kind = RowKind::kBeyond;
  float margin = 0;  // 0 .. kMaxMargin
  float spread = 0;  // -log of the greatest probability in the exit's softmax; 0 .. kMaxMargin
  float odds = 0;    // log_odds() of the most confident child of the row; 0 if there is none
};

// log(p / (1 - p)), with p clamped to [0.01, 0.99] because a confidence is one byte. NaN counts as
// 0.
float log_odds(float probability);

struct Logistic {
  double slope = 1;
  double spread_slope = 0;
  double odds_slope = 0;
  double offset = 0;

  double at(const RowEvidence& row) const;
  friend bool operator==(const Logistic&, const Logistic&) = default;
};

// The numbers that are added to a drafted token's perturbed score.
struct DraftPrior {
  double offset = 0;
  double odds_slope = 0;

  // odds: log_odds() of the node's confidence. Within +-kMaxMargin.
  float at(float odds) const;
  friend bool operator==(const DraftPrior&, const DraftPrior&) = default;
};

// A point of a piecewise linear map, which is constant before the first and after the last.
struct Knot {
  double x = 0;
  double y = 0;
  friend bool operator==(const Knot&, const Knot&) = default;
};

// The calibration of one exit at one temperature.
struct Calibration {
  double temperature = 0;
  DraftPrior prior = {};
  std::array<Logistic, kRowKinds> rows = {};
  std::vector<Knot> outcome = {};  // x rising, y not falling, all in [0, 1]; empty: y = x

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

// The product of the rows' probabilities, before the last map.
double row_product(const Calibration& calibration, std::span<const RowEvidence> rows);

double interpolate(std::span<const Knot> knots, double x);

// Between 0 and 1.
double confidence(const Calibration& calibration, std::span<const RowEvidence> rows);

// The calibration for this temperature. Margins of greedy and sampled choices are not comparable,
// so T = 0 has its own; a sampled one uses the nearest temperature. Null if there is none of that
// kind.
const Calibration* find_calibration(std::span<const Calibration> all, double temperature);

}  // namespace outrider
