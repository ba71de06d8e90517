// The time of a pass by its rows: the means of measured times, and the curve through them. The
// market (market.h), a draft beside the target (model_draft.h) and trees (tree_memory.h) price rows
// by it.
//
// Thread rule: values. Units: a curve's times have the unit of its means.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace outrider {

// The mean time of recent passes of about so many rows.
struct RowTime {
  double rows = 0;
  double time = 0;
  double weight = 0;  // the number of passes, older ones counted less

  // Adds a pass. passes: about so many, the last ones, count.
  void add(double pass_rows, double pass_time, double passes);
};

// Never falls: where means do, neighbours are pooled until they rise, by their weights (isotonic
// regression), so that noise makes no larger pass look cheaper. It is linear between the pools, and
// as steep beyond the last mean as before it. A number of rows that was never measured is assumed
// to be cheap, so that it is tried: fewer rows than the first mean has cost in proportion, more
// than an only one has cost nothing more.
class RowCurve final {
 public:
  // Neighbouring means that have one time.
  struct Pool {
    double first_rows = 0;
    double last_rows = 0;
    double time = 0;
    double weight = 0;
  };

  RowCurve() = default;
  // means: their rows rise.
  explicit RowCurve(std::span<const RowTime> means);

  // 0 while nothing is known.
  double time(std::size_t rows) const;
  // Rows and times rise.
  std::span<const Pool> pools() const { return pools_; }

 private:
  std::vector<Pool> pools_;
};

}  // namespace outrider
