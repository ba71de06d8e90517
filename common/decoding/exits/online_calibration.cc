// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/online_calibration.h"

#include <algorithm>
#include <utility>

#include "common/decoding/exits/calibration.h"

namespace outrider {
namespace {

constexpr OnlineLogistic<2>::Rule kRule{
    .keep = 0.96,  // 25 verdicts count
    .prior = {0, 1},
    // An exit's own statement counts like a few verdicts at first, and like a part of one for ever.
    .first = {1.5, 4},
    .lasting = {0.25, 1},
    .low = {-ExitCorrection::kMaxOffset, 0},
    .high = {ExitCorrection::kMaxOffset, ExitCorrection::kMaxSlope},
};

}  // namespace

double OnlineCalibration::hear(std::int32_t layer, double confidence,
                               std::vector<TokenId> outcome) {
  auto exit = exits_.find(layer);
  if (exit == exits_.end()) {
    if (exits_.size() >= kMaxExits) return confidence;
    exit = exits_.emplace(layer, OnlineLogistic<2>(kRule, kRule.prior)).first;
  }
  const double odds = log_odds(static_cast<float>(confidence));
  if (heard_.size() < kMaxHeard) heard_.push_back({layer, odds, std::move(outcome)});
  return exit->second.chance({1, odds});
}

void OnlineCalibration::on_verdict(std::span<const TokenId> tokens) {
  for (const Heard& heard : heard_) {
    exits_.at(heard.layer).learn({1, heard.odds}, std::ranges::equal(heard.outcome, tokens));
  }
  heard_.clear();
}

std::vector<ExitCorrection> OnlineCalibration::corrections() const {
  std::vector<ExitCorrection> all;
  for (const auto& [layer, exit] : exits_) {
    all.push_back({.layer = layer, .offset = exit.weights()[0], .slope = exit.weights()[1]});
  }
  return all;
}

void OnlineCalibration::restore(std::span<const ExitCorrection> corrections) {
  for (const ExitCorrection& one : corrections) {
    if (exits_.size() >= kMaxExits) return;
    exits_.insert_or_assign(one.layer, OnlineLogistic<2>(kRule, {one.offset, one.slope}));
  }
}

}  // namespace outrider
