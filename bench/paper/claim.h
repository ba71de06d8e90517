// Printed figures of papers beside ours, and whether the two agree: the verdict with which every
// `outrider-bench reproduce` ends.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "common/base/enum_names.h"
#include "common/base/json.h"

namespace outrider {

// The values that agree with what is printed.
struct Band {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  static Band near(double printed, double share) {
    return {printed - share * printed, printed + share * printed};
  }
  static Band within(double printed, double distance) {
    return {printed - distance, printed + distance};
  }
  static Band at_least(double printed) { return {.low = printed}; }
  static Band at_most(double printed) { return {.high = printed}; }

  bool holds(double value) const { return low <= value && value <= high; }
};

enum class ClaimVerdict : std::uint8_t {
  kAgrees,
  kExplained,  // disagrees, and the reason is recorded
  kDisagrees,  // without a reason
  kQuoted,     // nothing of ours stands beside it
};

template <>
inline constexpr auto enum_names<ClaimVerdict> =
    std::to_array<EnumName<ClaimVerdict>>({{ClaimVerdict::kAgrees, "agrees"},
                                           {ClaimVerdict::kExplained, "explained"},
                                           {ClaimVerdict::kDisagrees, "disagrees"},
                                           {ClaimVerdict::kQuoted, "quoted"}});

struct PrintedClaim {
  std::string what;  // names the figure, once in its command
  double printed = 0;
  std::optional<double> formula = {};  // by the paper's own formula, from its own printed inputs
  std::optional<double> ours = {};     // nothing: the formula is judged
  Band band = {};
  std::string reason = {};  // why it may disagree; empty: then it must not

  std::optional<double> judged() const { return ours ? ours : formula; }
  ClaimVerdict verdict() const;
};

Json to_json(const PrintedClaim& claim);

// For people: how many agree, then those that do not, by their reasons.
std::string verdicts_for_people(std::span<const PrintedClaim> claims);

}  // namespace outrider
