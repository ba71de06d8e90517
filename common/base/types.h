// The few scalar types that every part of Outrider shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace outrider {

// An entry of the tokenizer's vocabulary: 0 <= token < vocab_size.
using TokenId = std::int32_t;

// A position in prefix and answer, counted from 0. Lengths and ends are positions too.
using Position = std::int64_t;

// The number of a sent tree node: the edge counts from 1, per stream. 0 names the anchor.
using NodeId = std::uint32_t;

}  // namespace outrider
