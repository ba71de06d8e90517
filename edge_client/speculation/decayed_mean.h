// The mean of recent values: each newer one makes the older count less.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace outrider {

class DecayedMean final {
 public:
  // keep: of the older values' weight, per value; 1 / (1 - keep) count at most.
  explicit DecayedMean(double keep) : keep_(keep) {}

  void add(double value) {
    weight_ = weight_ * keep_ + 1;
    sum_ = sum_ * keep_ + value;
  }
  void clear() { weight_ = sum_ = 0; }

  // Of so many values, as they count.
  double weight() const { return weight_; }
  // 0 while there is none.
  double mean() const { return weight_ > 0 ? sum_ / weight_ : 0; }

 private:
  double keep_;
  double weight_ = 0;
  double sum_ = 0;
};

}  // namespace outrider
