// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/claim.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace outrider {

ClaimVerdict PrintedClaim::verdict() const {
  if (!judged()) return ClaimVerdict::kQuoted;
  if (band.holds(*judged())) return ClaimVerdict::kAgrees;
  return reason.empty() ? ClaimVerdict::kDisagrees : ClaimVerdict::kExplained;
}

namespace {

Json bound(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

std::string line_of(const PrintedClaim& claim) {
  std::string line = fmt::format("  {}: printed {:.3g}", claim.what, claim.printed);
  if (claim.formula) line += fmt::format(", formula {:.3g}", *claim.formula);
  if (claim.ours) line += fmt::format(", ours {:.3g}", *claim.ours);
  return line + "\n";
}

}  // namespace

Json to_json(const PrintedClaim& claim) {
  return {{"what", claim.what},
          {"printed", claim.printed},
          {"formula", or_null(claim.formula)},
          {"ours", or_null(claim.ours)},
          {"band", {bound(claim.band.low), bound(claim.band.high)}},
          {"verdict", name_of(claim.verdict())},
          {"reason", claim.reason}};
}

std::string verdicts_for_people(std::span<const PrintedClaim> claims) {
  const auto count = [&](ClaimVerdict verdict) {
    return std::ranges::count(claims, verdict, &PrintedClaim::verdict);
  };
  std::string text = fmt::format(
      "verdict: {} of {} figures agree, {} differ for a known reason, "
      "{} differ without one, {} are quoted\n",
      count(ClaimVerdict::kAgrees), claims.size(), count(ClaimVerdict::kExplained),
      count(ClaimVerdict::kDisagrees), count(ClaimVerdict::kQuoted));
  std::vector<std::string> reasons;
  for (const PrintedClaim& claim : claims) {
    if (claim.verdict() != ClaimVerdict::kExplained) continue;
    if (std::ranges::find(reasons, claim.reason) == reasons.end()) reasons.push_back(claim.reason);
  }
  for (const std::string& reason : reasons) {
    text += "differ, because " + reason + ":\n";
    for (const PrintedClaim& claim : claims) {
      if (claim.verdict() == ClaimVerdict::kExplained && claim.reason == reason)
        text += line_of(claim);
    }
  }
  if (count(ClaimVerdict::kDisagrees) > 0) text += "differ without a recorded reason:\n";
  for (const PrintedClaim& claim : claims) {
    if (claim.verdict() == ClaimVerdict::kDisagrees) text += line_of(claim);
  }
  return text;
}

}  // namespace outrider
