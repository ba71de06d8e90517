// How much of the drafting costs no time: while the draft works, the target's next layers are read
// from flash, so the pass behind it is shorter. Learnt as the slope of passes' times over the time
// that was drafted before them: that share of it is hidden, of as much as is often drafted. Of the
// usual drafting would be less than there is room for: who drafts little would never learn that
// more is free.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

namespace outrider {

class HiddenDrafting final {
 public:
  // A pass took so much longer than is usual for its shape, after so much drafting.
  void observe(double drafted_ms, double excess_ms) {
    weight_ = weight_ * kKeep + 1;
    const double x = drafted_ms - mean_x_, y = excess_ms - mean_y_;
    mean_x_ += x / weight_;
    mean_y_ += y / weight_;
    xx_ = xx_ * kKeep + x * (drafted_ms - mean_x_);
    xy_ = xy_ * kKeep + x * (excess_ms - mean_y_);
  }

  // So much drafting is hidden, in ms.
  double ms() const {
    const double prior = kPrior * weight_;
    if (xx_ <= 0) return 0;
    const double often = mean_x_ + std::sqrt(xx_ / weight_);  // a standard deviation more
    return std::clamp(-xy_ / (xx_ + prior), 0.0, 1.0) * often;
  }

 private:
  static constexpr double kKeep = 0.98;
  static constexpr double kPrior = 25;  // ms^2: as if drafting times differed by 5 ms for nothing

  double weight_ = 0, mean_x_ = 0, mean_y_ = 0, xx_ = 0, xy_ = 0;
};

}  // namespace outrider
