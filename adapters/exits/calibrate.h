// Fits the confidence of an exit to how often it was right, and measures the error of a confidence.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "adapters/exits/replay.h"
#include "common/decoding/exits/calibration.h"

namespace outrider {

// A confidence, and whether the prediction that had it was right.
struct Judged {
  double confidence = 0;
  bool right = false;
};

// Fits the rows' logistic functions by maximum likelihood, with a weak prior for kinds of which
// there are few rows. Then fits the outcome by isotonic regression on their product. `prior`: the
// one with which the samples were made.
Calibration fit_calibration(std::span<const ExitSample> samples, double temperature,
                            const DraftPrior& prior);

// The prior that, added to drafted tokens' scores, lets most rows with nodes choose right. samples:
// made without a prior.
DraftPrior fit_prior(std::span<const ExitSample> samples);

// Expected calibration error (Guo et al. 2017): over `bins` equal parts of [0, 1], the mean
// distance between mean confidence and the share that was right, weighted by the number of samples.
double calibration_error(std::span<const Judged> judged, int bins = 15);

// One bin of a reliability plot.
struct ReliabilityBin {
  double confidence = 0;  // means
  double right = 0;
  std::size_t count = 0;
};
std::vector<ReliabilityBin> reliability(std::span<const Judged> judged, int bins = 15);

// --- the parts of fit_calibration ---

struct LabelledRow {
  RowEvidence row;
  bool right = false;
};
Logistic fit_logistic(std::span<const LabelledRow> rows);

struct Labelled {
  double x = 0;
  bool right = false;
};
// Knots of the best ascending map from x to the probability of `right`.
std::vector<Knot> fit_isotonic(std::vector<Labelled> points);

}  // namespace outrider
