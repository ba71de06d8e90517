// How sure an early exit may be: from the margins of its walk to the probability that it names the
// verdict's whole outcome, i.e. leaf and next token.
//
//   q(row)     = logistic(slope * margin + spread_slope * spread + odds_slope * odds + offset)
//                with slopes and offset by kind of row
//   confidence = outcome(q(row 1) * q(row 2) * ..)              monotone
//
// A row's margin is the perturbed score of the exit's choice less that of its runner-up (at T = 0
// the logits), so it contains the same noise as the target's choice. Its spread says how open
// the question is at all: on text that leaves many tokens possible the same margin is worth less.
// Whether a drafted token agrees with the exit's choice says more than any margin: hence the kinds.
// And how sure the edge is of that token (the confidence that came with its node) parts easy text
// from hard. It says something about the choice too: a drafted token's score counts for more than
// it is, the more the surer the edge, since two models that both find a token good err more rarely
// than either.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace outrider {

// What the pass's nodes say to an exit's choice at a row.
enum class RowKind : unsigned char {
  kDrafted = 0,    // the choice is a node below the row
  kCorrected = 1,  // there are nodes below the row, and the choice is none of them
  kBeyond = 2,     // no node below the row
};
inline constexpr std::size_t kRowKinds = 3;

inline constexpr float kMaxMargin = 30.0f;

struct RowEvidence {
  RowKind kind = RowKind::kBeyond;
  float margin = 0;  // 0 .. kMaxMargin
  float spread = 0;  // -log of the greatest probability in the exit's softmax; 0 .. kMaxMargin
  float odds = 0;    // log_odds() of the surest node below the row; 0 if there is none
};

// log(p / (1 - p)) of p held within [0.01, 0.99]: a byte cannot say more. NaN counts as 0.
float log_odds(float probability);

struct Logistic {
  double slope = 1;
  double spread_slope = 0;
  double odds_slope = 0;
  double offset = 0;

  double at(const RowEvidence& row) const;
  friend bool operator==(const Logistic&, const Logistic&) = default;
};

// What a drafted token's perturbed score counts for more than it is.
struct DraftPrior {
  double offset = 0;
  double odds_slope = 0;

  // odds: log_odds() of the node's confidence. Within +-kMaxMargin.
  float at(float odds) const;
  friend bool operator==(const DraftPrior&, const DraftPrior&) = default;
};

// A point of a piecewise linear map; level before the first and behind the last.
struct Knot {
  double x = 0;
  double y = 0;
  friend bool operator==(const Knot&, const Knot&) = default;
};

// Of one exit at one temperature.
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

// The one for this temperature: greedy and sampled choices have margins of different kinds, so
// T = 0 has its own; of the others the nearest. Null if there is none of the kind.
const Calibration* find_calibration(std::span<const Calibration> all, double temperature);

}  // namespace outrider
