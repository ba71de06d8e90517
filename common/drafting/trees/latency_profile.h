// How long a pass takes, by its shape (LEVER, section 4.2, "cost"): learnt online from what was
// measured, indexed by rows and leaves.
//
// Times rise with rows and with leaves: measured means are smoothed over neighbouring numbers of
// rows and pooled until they do (isotonic regression), so that noise never makes a larger tree look
// cheaper, nor much dearer. Between measured shapes lie
// straight lines; beyond the largest one time rises by its slope and kCaution more.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace outrider {

class LatencyProfile final {
 public:
  struct Cell {
    double ms = 0;
    double weight = 0;  // of passes, older ones counted less
  };
  using Shape = std::pair<std::int32_t, std::int32_t>;  // rows, leaves

  static constexpr std::int32_t kMaxRows = 512;
  static constexpr double kCaution = 0.25;

  // A pass over `rows` rows, of a tree with `leaves` leaves, took `ms`. What is out of range, or no
  // time at all, is left out.
  void observe(std::size_t rows, std::size_t leaves, double ms);

  bool known() const { return !cells_.empty(); }
  // Of how many numbers of rows something is known.
  std::size_t rows_seen() const { return rows_seen_; }
  // ms; 0 while nothing is known.
  double ms(std::size_t rows, std::size_t leaves) const;

  const std::map<Shape, Cell>& cells() const { return cells_; }
  // Takes a stored cell; false if it makes no sense.
  bool restore(Shape shape, const Cell& cell);

 private:
  void fit();

  std::map<Shape, Cell> cells_;
  std::vector<double> by_rows_;  // [rows]: of one leaf; from 1 to the largest seen
  double slope_ = 0;             // ms per row beyond
  double leaf_ms_ = 0;           // per leaf beyond the first
  std::size_t rows_seen_ = 0;
};

}  // namespace outrider
