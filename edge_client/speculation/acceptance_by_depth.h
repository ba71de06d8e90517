// The chance that the first k tokens of a drafted chain stand, learnt from verdicts.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace outrider {

class AcceptanceByDepth final {
 public:
  static constexpr std::size_t kMaxDepth = 64;

  // A pass took a chain of `length` nodes and accepted the first `accepted`.
  void record(std::size_t length, std::size_t accepted);
  // a_k; a_0 = 1.
  double of(std::size_t k) const;

  // How often a drafted token was verified at each depth, and how often it stood, older ones less;
  // to the deepest that was tried.
  std::vector<double> tried() const;
  std::vector<double> stood() const;
  // As another one left off. Both of one size, at most kMaxDepth.
  void restore(std::span<const double> tried, std::span<const double> stood);

 private:
  std::size_t depth() const;

  std::array<double, kMaxDepth> tried_{};
  std::array<double, kMaxDepth> stood_{};
};

}  // namespace outrider
