// What trees learn of two devices and a pair of models: how long passes take, how much drafting
// they hide, whether trees pay at all. It outlasts an answer.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "common/drafting/trees/hidden_drafting.h"
#include "common/drafting/trees/latency_profile.h"

namespace outrider {

// Whether a tree's tokens cost less than plain decoding's. Where they do not, beyond a standard
// error, rounds are left to plain decoding for a while, twice as long each time that a trial shows
// the same.
class TreePayoff final {
 public:
  // A round was plain decoding's: its token took that long.
  void on_plain(double cycle_ms) {
    plain_ms_ += (plain_ms_ > 0 ? kLearn : 1) * (cycle_ms - plain_ms_);
  }
  // A round was a tree: its tokens took that long. plain_ms: what a token takes without, as long as
  // on_plain() was never called.
  void on_tree(double tokens, double cycle_ms, double plain_ms) {
    if (plain_ms_ > 0) plain_ms = plain_ms_;
    // The mean of a trial's rounds: the first one may be slow for reasons of its own.
    const double learn = std::max(kLearn, 1.0 / (rounds_ + 1));
    const double off = tokens * plain_ms - cycle_ms - saved_ms_;
    saved_ms_ += learn * off;
    variance_ += learn * ((1 - learn) * off * off - variance_);
    if (++rounds_ < kTrial) return;
    const double error = std::sqrt(variance_ * learn / (2 - learn));
    if (saved_ms_ > error) next_rest_ = kFirstRest;
    if (saved_ms_ + error >= 0) return;
    rest_ = next_rest_;
    next_rest_ = std::min(2 * next_rest_, kLongestRest);
    rounds_ = 0;
  }
  // The rounds that come are plain decoding's.
  bool rests() const { return rest_ > 0; }
  // A round begins. False: it is plain decoding's.
  bool begin_round() { return rest_ == 0 || rest_-- == 0; }

 private:
  static constexpr double kLearn = 0.05;
  static constexpr int kTrial = 8;  // rounds
  static constexpr int kFirstRest = 32;
  static constexpr int kLongestRest = 512;

  double plain_ms_ = 0;
  double saved_ms_ = 0, variance_ = 0;  // of a cycle, of late
  int rounds_ = 0;
  int rest_ = 0;
  int next_rest_ = kFirstRest;
};

struct TreeMemory {
  LatencyProfile passes;  // of the target
  HiddenDrafting hidden;
  TreePayoff payoff;
};

}  // namespace outrider
