// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/nearest.h"

#include <algorithm>
#include <cstddef>

namespace outrider {
namespace {

// Longer input is no typing error, and the table below is quadratic.
constexpr std::size_t kMaxLength = 64;

// Edits between a and b, a swap of neighbours counting as one (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_match(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kMaxLength) return "";
  std::string best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : known) {
    if (candidate.size() > kMaxLength) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance * 3 > std::max(candidate.size(), word.size())) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace outrider
