// The figures that trees learn about one edge, one target and one draft: how long passes take by
// their shape, how much drafting costs no time, and whether trees pay at all. It outlives an
// answer; a process keeps one for each verifier.
//
// Thread rule: values, used by the thread of the session. Units: milliseconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/decoding/costs/row_curve.h"

namespace outrider {

// How long passes of one shape took recently: a record of what was learnt, for later answers.
struct ShapeTime {
  std::int32_t rows = 0;
  std::int32_t leaves = 0;
  double ms = 0;
  double weight = 0;  // of passes, older ones counted less

  friend bool operator==(const ShapeTime&, const ShapeTime&) = default;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("rows", self.rows);
    field("leaves", self.leaves);
    field("ms", self.ms);
    field("weight", self.weight);
  }
};

// How long a pass takes, by its shape (LEVER, section 4.2, "cost"): learnt from measured passes,
// indexed by rows and leaves.
//
// Times rise with rows, by a curve (row_curve.h), and with leaves. Measured means are smoothed over
// neighbouring numbers of rows first, so that noise makes a larger tree look not much dearer
// either. Beyond the largest measured shape times rise by its slope and kCaution more.
class LatencyProfile final {
 public:
  static constexpr std::int32_t kMaxRows = 512;
  static constexpr double kCaution = 0.25;

  // A pass over `rows` rows, of a tree with `leaves` leaves, took `ms`. Values out of range, and
  // times of 0, are ignored.
  void observe(std::size_t rows, std::size_t leaves, double ms);

  bool known() const { return !shapes_.empty(); }
  // For how many different numbers of rows a time is known.
  std::size_t rows_seen() const { return shapes_.size(); }
  // ms; 0 while nothing is known.
  double ms(std::size_t rows, std::size_t leaves) const;

  // The times that were learnt, by rows and leaves.
  std::vector<ShapeTime> shapes() const;
  // Takes a shape that was stored; false if it is not valid.
  bool restore(const ShapeTime& stored);

 private:
  void fit();
  double slope_beyond() const;

  std::map<std::int32_t, std::map<std::int32_t, RowTime>> shapes_;  // [rows][leaves]; ms
  RowCurve by_rows_;                                                // ms, of one leaf
  double leaf_ms_ = 0;                                              // per leaf beyond the first
};

// How much of the drafting costs no time: while the draft works, the target's next layers are read
// from flash, so the pass after it is shorter. Learnt as the slope of pass times over the time that
// was drafted before them: this share is hidden, of the drafting time that is reached often (a
// standard deviation above the mean). With the mean alone, an edge that drafts little would never
// learn that more is free.
class HiddenDrafting final {
 public:
  // After drafting for drafted_ms, a pass took excess_ms longer than is usual for its shape.
  void observe(double drafted_ms, double excess_ms) {
    weight_ = weight_ * kKeep + 1;
    const double x = drafted_ms - mean_x_, y = excess_ms - mean_y_;
    mean_x_ += x / weight_;
    mean_y_ += y / weight_;
    xx_ = xx_ * kKeep + x * (drafted_ms - mean_x_);
    xy_ = xy_ * kKeep + x * (excess_ms - mean_y_);
  }

  // How much drafting is hidden.
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

// Whether tokens from trees cost less time than tokens from plain decoding. Where they do not, by
// more than a standard error, the next rounds are plain decoding, for twice as many rounds after
// each trial that shows the same.
class TreePayoff final {
 public:
  // A round was plain decoding: its token took cycle_ms.
  void on_plain(double cycle_ms) {
    plain_ms_ += (plain_ms_ > 0 ? kLearn : 1) * (cycle_ms - plain_ms_);
  }
  // A round was a tree: its tokens took cycle_ms. plain_ms: an estimate of what a token takes
  // without a tree, used until on_plain() has measured it.
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
  // The next round is plain decoding.
  bool rests() const { return rest_ > 0; }
  // A round begins. False: it is plain decoding.
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
