// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/decoding/exits/positive_system.h"

namespace outrider {
namespace {

// The prior counts like a few observations of slope 1 and offset 0.
constexpr double kPrior = 1.0;
// A smaller weight of a lead in the log odds of a comparison counts as none.
constexpr double kMinSlope = 1e-3;
// Before isotonic regression, points are put into this many groups of equal size: smaller groups
// would fit noise.
constexpr std::size_t kGroups = 24;

// A range of points with one mean.
struct Block {
  double x = 0, right = 0, count = 0;
  double mean() const { return right / count; }
};

template <std::size_t N>
using Vector = std::array<double, N>;
template <std::size_t N>
using Matrix = std::array<Vector<N>, N>;

template <std::size_t N>
struct Observation {
  Vector<N> x;
  bool right = false;
};

// Fits by Newton's method on the penalised log likelihood, which is concave, how x and an offset
// give the log odds of `right`. Few observations change `start` little. The first weight is never
// negative.
template <std::size_t N>
Vector<N> fit_weights(const std::vector<Observation<N>>& seen, const Vector<N>& start) {
  Vector<N> fit = start;
  for (int step = 0; step < 50; ++step) {
    Vector<N> gradient;
    Matrix<N> curvature = {};
    for (std::size_t i = 0; i < N; ++i) {
      gradient[i] = -kPrior * (fit[i] - start[i]);
      curvature[i][i] = kPrior;
    }
    for (const Observation<N>& one : seen) {
      double sum = 0;
      for (std::size_t i = 0; i < N; ++i) sum += fit[i] * one.x[i];
      const double p = 1 / (1 + std::exp(-sum)), w = p * (1 - p), error = (one.right ? 1 : 0) - p;
      for (std::size_t i = 0; i < N; ++i) {
        gradient[i] += error * one.x[i];
        for (std::size_t j = 0; j < N; ++j) curvature[i][j] += w * one.x[i] * one.x[j];
      }
    }
    const Vector<N> change = solve_positive(curvature, gradient);
    double size = 0;
    for (const double one : change) size = std::max(size, std::abs(one));
    const double scale = size > 2 ? 2 / size : 1;  // far from the optimum Newton overshoots
    for (std::size_t i = 0; i < N; ++i) fit[i] += scale * change[i];
    fit[0] = std::max(0.0, fit[0]);
    if (size < 1e-9) break;
  }
  return fit;
}

}  // namespace

Logistic fit_logistic(std::span<const LabelledRow> rows) {
  std::vector<Observation<4>> seen;
  seen.reserve(rows.size());
  for (const LabelledRow& one : rows) {
    seen.push_back({{one.row.margin, one.row.spread, one.row.odds, 1}, one.right});
  }
  const Vector<4> fit = fit_weights<4>(seen, {1, 0, 0, 0});
  return {.slope = fit[0], .spread_slope = fit[1], .odds_slope = fit[2], .offset = fit[3]};
}

// Pool adjacent violators over groups of neighbouring points.
std::vector<Knot> fit_isotonic(std::vector<Labelled> points) {
  std::sort(points.begin(), points.end(),
            [](const Labelled& a, const Labelled& b) { return a.x < b.x; });
  const std::size_t groups = std::clamp<std::size_t>(points.size() / 20, 1, kGroups);
  std::vector<Block> blocks;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t begin = points.size() * group / groups;
    const std::size_t end = points.size() * (group + 1) / groups;
    if (begin == end) continue;
    Block block;
    for (std::size_t i = begin; i < end; ++i) {
      block.x += points[i].x;
      block.right += points[i].right ? 1 : 0;
      block.count += 1;
    }
    blocks.push_back(block);
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() >= blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().x += last.x;
      blocks.back().right += last.right;
      blocks.back().count += last.count;
    }
  }
  std::vector<Knot> knots;
  for (const Block& block : blocks) {
    const double x = std::clamp(block.x / block.count, 0.0, 1.0);
    if (knots.empty() || x > knots.back().x) knots.push_back({x, block.mean()});
  }
  return knots;
}

// The drafted token should win where the odds of both tokens are equal:
//   slope * lead + odds_slope * odds + offset = 0
// There lead + prior = 0 holds if the prior is the remaining terms in units of the lead.
DraftPrior fit_prior(std::span<const ExitSample> samples) {
  std::vector<Observation<3>> comparisons;
  for (const ExitSample& sample : samples) {
    for (const ExitSample::RowComparison& comparison : sample.comparisons) {
      if (comparison.drafted_right == comparison.other_right) continue;  // both are wrong
      comparisons.push_back({{comparison.lead, comparison.odds, 1}, comparison.drafted_right});
    }
  }
  const auto [slope, odds_slope, offset] = fit_weights<3>(comparisons, {1, 0, 0});
  if (slope < kMinSlope) return {};  // here the lead carries no information
  const auto limited = [](double x) { return std::clamp<double>(x, -kMaxMargin, kMaxMargin); };
  return {.offset = limited(offset / slope), .odds_slope = limited(odds_slope / slope)};
}

Calibration fit_calibration(std::span<const ExitSample> samples, double temperature,
                            const DraftPrior& prior) {
  Calibration calibration;
  calibration.temperature = temperature;
  calibration.prior = prior;
  std::array<std::vector<LabelledRow>, kRowKinds> rows;
  for (const ExitSample& sample : samples) {
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      rows[static_cast<std::size_t>(sample.rows[i].kind)].push_back(
          {sample.rows[i], sample.row_right[i]});
    }
  }
  for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
    calibration.rows[kind] = fit_logistic(rows[kind]);
  }
  std::vector<Labelled> outcomes;
  for (const ExitSample& sample : samples) {
    outcomes.push_back({row_product(calibration, sample.rows), sample.right});
  }
  calibration.outcome = fit_isotonic(std::move(outcomes));
  return calibration;
}

std::vector<ReliabilityBin> reliability(std::span<const Judged> judged, int bins) {
  std::vector<ReliabilityBin> all(static_cast<std::size_t>(bins));
  for (const Judged& one : judged) {
    const int at = std::min(static_cast<int>(one.confidence * bins), bins - 1);
    ReliabilityBin& bin = all[static_cast<std::size_t>(at)];
    bin.confidence += one.confidence;
    bin.right += one.right ? 1 : 0;
    ++bin.count;
  }
  std::erase_if(all, [](const ReliabilityBin& bin) { return bin.count == 0; });
  for (ReliabilityBin& bin : all) {
    bin.confidence /= static_cast<double>(bin.count);
    bin.right /= static_cast<double>(bin.count);
  }
  return all;
}

double calibration_error(std::span<const Judged> judged, int bins) {
  double error = 0;
  for (const ReliabilityBin& bin : reliability(judged, bins)) {
    error += std::abs(bin.confidence - bin.right) * static_cast<double>(bin.count);
  }
  return judged.empty() ? 0 : error / static_cast<double>(judged.size());
}

}  // namespace outrider
