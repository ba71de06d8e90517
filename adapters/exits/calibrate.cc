// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace outrider {
namespace {

// The prior's weight: that of a few observations that say slope 1, offset 0.
constexpr double kPrior = 1.0;
// Points are put into this many groups of equal size before isotonic regression: fewer points a
// group would fit noise.
constexpr std::size_t kGroups = 24;

// A stretch of points with one mean.
struct Block {
  double x = 0, right = 0, count = 0;
  double mean() const { return right / count; }
};

using Vector3 = std::array<double, 3>;
using Matrix3 = std::array<Vector3, 3>;

// Of a positive definite system, which needs no pivots.
Vector3 solve(Matrix3 a, Vector3 b) {
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t row = i + 1; row < 3; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (std::size_t j = i; j < 3; ++j) a[row][j] -= factor * a[i][j];
      b[row] -= factor * b[i];
    }
  }
  for (std::size_t i = 3; i-- > 0;) {
    for (std::size_t j = i + 1; j < 3; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

// Newton's method on the penalised log likelihood, which is concave.
Logistic fit_logistic(std::span<const LabelledRow> rows) {
  Logistic fit;
  for (int step = 0; step < 50; ++step) {
    Vector3 gradient = {-kPrior * (fit.slope - 1), -kPrior * fit.spread_slope,
                        -kPrior * fit.offset};
    Matrix3 curvature = {};
    for (std::size_t i = 0; i < 3; ++i) curvature[i][i] = kPrior;
    for (const LabelledRow& one : rows) {
      const Vector3 x = {one.row.margin, one.row.spread, 1};
      const double p = fit.at(one.row), w = p * (1 - p), error = (one.right ? 1 : 0) - p;
      for (std::size_t i = 0; i < 3; ++i) {
        gradient[i] += error * x[i];
        for (std::size_t j = 0; j < 3; ++j) curvature[i][j] += w * x[i] * x[j];
      }
    }
    const Vector3 change = solve(curvature, gradient);
    double size = 0;
    for (const double one : change) size = std::max(size, std::abs(one));
    const double scale = size > 2 ? 2 / size : 1;  // far from the optimum Newton overshoots
    fit.slope = std::max(0.0, fit.slope + scale * change[0]);
    fit.spread_slope += scale * change[1];
    fit.offset += scale * change[2];
    if (size < 1e-9) break;
  }
  return fit;
}

// Pool adjacent violators over groups of neighbours.
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

// The drafted token wins where lead > -prior: sorted by lead, every place between two rows is a
// prior, and all are tried.
double fit_prior(std::span<const ExitSample> samples) {
  std::vector<ExitSample::Duel> duels;
  for (const ExitSample& sample : samples) {
    duels.insert(duels.end(), sample.duels.begin(), sample.duels.end());
  }
  std::sort(duels.begin(), duels.end(),
            [](const auto& a, const auto& b) { return a.lead > b.lead; });
  double best = 0;
  std::int64_t gain = 0, best_gain = 0;  // rows more right than with prior 0
  for (std::size_t i = 0; i < duels.size(); ++i) {
    if (duels[i].lead > 0) continue;
    gain += (duels[i].drafted_right ? 1 : 0) - (duels[i].other_right ? 1 : 0);
    const double below = i + 1 < duels.size() ? duels[i + 1].lead : duels[i].lead - 1;
    if (gain <= best_gain || below == duels[i].lead) continue;
    best_gain = gain;
    best = -(duels[i].lead + below) / 2;
  }
  return std::clamp<double>(best, 0, kMaxMargin);
}

Calibration fit_calibration(std::span<const ExitSample> samples, double temperature, double prior) {
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
