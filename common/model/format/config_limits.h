// How large the numbers of a config may be.
//
// Thread rule: constants. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace outrider {

// Far above any published model, and small enough that no product of two passes 2^62.
inline constexpr std::int64_t kMaxHidden = 1 << 17;
inline constexpr std::int64_t kMaxIntermediate = 1 << 20;
inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxHeads = 1024;
inline constexpr std::int64_t kMaxHeadDim = 1024;
inline constexpr std::int64_t kMaxVocab = 1 << 22;
inline constexpr std::int64_t kMaxPositions = 1 << 24;
inline constexpr std::int64_t kMaxStopIds = 64;

}  // namespace outrider
