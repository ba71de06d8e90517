// An 8-byte digest of a row of logits, by which a record of an answer names the row that a token
// was chosen from (docs/audit.md). It is a sum modulo 2^64 of one mixed integer for each entry, of
// the entry's index and its f32 bits: whole numbers, so that lanes, threads and devices may add in
// any order. It finds rows that differ; it is no cryptographic hash.
//
// Thread rule: pure functions. The same value on every CPU. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "common/base/types.h"

namespace outrider {

// Positions of chosen tokens whose rows have digests: those that this divides.
inline constexpr Position kDigestEvery = 16;
constexpr bool has_digest(Position position) {
  return position % kDigestEvery == 0;
}
// How many of the positions from `begin` on, before `end`, have one. 0 <= begin <= end.
constexpr Position digests_between(Position begin, Position end) {
  return (end + kDigestEvery - 1) / kDigestEvery - (begin + kDigestEvery - 1) / kDigestEvery;
}

// row: [vocab] f32 as the model gives it, before settings and filters. Every NaN counts as the same
// one; -0 and +0 differ.
std::uint64_t row_digest(std::span<const float> row);

}  // namespace outrider
