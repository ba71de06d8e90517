// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/paper/reproduce_findings.h"

#include <fmt/core.h>

#include <cmath>

namespace outrider {
namespace {

constexpr double kFar = 0.1;  // a formula this far from what is printed is listed

}  // namespace

void Findings::compare(const std::string& what, double printed, double formula) {
  if (std::abs(formula / printed - 1) <= kFar) return;
  differences.push_back(
      fmt::format("{}: printed {:.2f}, by its own formula {:.2f}", what, printed, formula));
}

std::string shown(std::optional<double> value) {
  return value ? fmt::format("{:7.2f}", *value) : fmt::format("{:>7}", "-");
}

std::optional<double> value_of(const std::optional<Estimate>& estimate) {
  return estimate ? std::optional(estimate->value) : std::nullopt;
}

Json json_of(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

std::optional<double> not_begun(const AnswerFigures& sum) {
  const std::optional<double> not_whole = sum.miss_rate(), in_part = sum.partial_rate();
  if (!not_whole || !in_part) return std::nullopt;
  return *not_whole - *in_part;
}

}  // namespace outrider
