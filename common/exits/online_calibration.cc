// SPDX-License-Identifier: Apache-2.0
#include "common/exits/online_calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/exits/calibration.h"

namespace outrider {
namespace {

constexpr double kKeepVerdicts = 0.96;  // of older verdicts' weight, per verdict: 25 count
// What an exit states counts like a few verdicts at first, and like a part of one for ever.
constexpr double kFirstOffsets = 1.5, kFirstSlopes = 4;
constexpr double kLastingOffsets = 0.25, kLastingSlopes = 1;

double chance_at(const ExitCorrection& correction, double odds) {
  return 1 / (1 + std::exp(-(correction.offset + correction.slope * odds)));
}

}  // namespace

OnlineCalibration::Exit OnlineCalibration::beginning_with(const ExitCorrection& correction) {
  return {.correction = correction, .offsets = kFirstOffsets, .both = 0, .slopes = kFirstSlopes};
}

double OnlineCalibration::hear(std::int32_t layer, double confidence,
                               std::vector<TokenId> outcome) {
  auto exit = exits_.find(layer);
  if (exit == exits_.end()) {
    if (exits_.size() >= kMaxExits) return confidence;
    exit = exits_.emplace(layer, beginning_with({.layer = layer})).first;
  }
  const double odds = log_odds(static_cast<float>(confidence));
  if (heard_.size() < kMaxHeard) heard_.push_back({layer, odds, std::move(outcome)});
  return chance_at(exit->second.correction, odds);
}

void OnlineCalibration::on_verdict(std::span<const TokenId> tokens) {
  for (const Heard& heard : heard_) {
    learn(exits_.at(heard.layer), heard.odds, std::ranges::equal(heard.outcome, tokens));
  }
  heard_.clear();
}

// The step that maximizes the likelihood of the verdicts, each weighted by its age, times a prior
// around what the exit states.
void OnlineCalibration::learn(Exit& exit, double odds, bool right) {
  ExitCorrection& at = exit.correction;
  const double chance = chance_at(at, odds);
  const double weight = chance * (1 - chance);
  exit.offsets = kKeepVerdicts * exit.offsets + weight;
  exit.both = kKeepVerdicts * exit.both + weight * odds;
  exit.slopes = kKeepVerdicts * exit.slopes + weight * odds * odds;
  // As older verdicts lose weight, the prior pulls back.
  const double surprise = (right ? 1 : 0) - chance;
  const double offset = surprise - (1 - kKeepVerdicts) * kLastingOffsets * at.offset;
  const double slope = surprise * odds - (1 - kKeepVerdicts) * kLastingSlopes * (at.slope - 1);
  const double offsets = exit.offsets + kLastingOffsets, slopes = exit.slopes + kLastingSlopes;
  const double determinant = offsets * slopes - exit.both * exit.both;  // > 0 by the prior
  at.offset = std::clamp(at.offset + (slopes * offset - exit.both * slope) / determinant,
                         -ExitCorrection::kMaxOffset, ExitCorrection::kMaxOffset);
  at.slope = std::clamp(at.slope + (offsets * slope - exit.both * offset) / determinant, 0.0,
                        ExitCorrection::kMaxSlope);
}

std::vector<ExitCorrection> OnlineCalibration::corrections() const {
  std::vector<ExitCorrection> all;
  for (const auto& [layer, exit] : exits_) all.push_back(exit.correction);
  return all;
}

void OnlineCalibration::restore(std::span<const ExitCorrection> corrections) {
  for (const ExitCorrection& one : corrections) {
    if (exits_.size() < kMaxExits) exits_.insert_or_assign(one.layer, beginning_with(one));
  }
}

}  // namespace outrider
