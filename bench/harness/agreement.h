// How far a text goes along with another one: of a model that answers for itself, with the
// target's.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>

#include "common/base/types.h"

namespace outrider {

// The share of `wanted` that `ids` writes before it first says something else; 1 for no text.
inline double agreement(std::span<const TokenId> wanted, std::span<const TokenId> ids) {
  if (wanted.empty()) return 1;
  const auto ends = std::ranges::mismatch(wanted, ids);
  return static_cast<double>(ends.in1 - wanted.begin()) / static_cast<double>(wanted.size());
}

}  // namespace outrider
