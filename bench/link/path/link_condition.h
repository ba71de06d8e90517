// What a profile holds beside delay and rate, and whether packets have met it: a run over a link
// with black-outs says nothing about black-outs if none fell into it.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bench/link/path/link_profile.h"
#include "bench/link/path/path_counts.h"
#include "common/base/enum_names.h"

namespace outrider {

enum class LinkCondition : std::uint8_t {
  kPacketLoss,  // single packets and bursts
  kBlackOut,    // a window of time that loses every packet
  kLossWindow,  // one that loses a share of them
  kStall,       // a trace that lets nothing pass for half a second or longer
  kSilence,
  kReset
};

template <>
inline constexpr auto enum_names<LinkCondition> =
    std::to_array<EnumName<LinkCondition>>({{LinkCondition::kPacketLoss, "packet loss"},
                                            {LinkCondition::kBlackOut, "black-out"},
                                            {LinkCondition::kLossWindow, "loss window"},
                                            {LinkCondition::kStall, "stall"},
                                            {LinkCondition::kSilence, "silence"},
                                            {LinkCondition::kReset, "reset"}});

// A packet has met a stall if it stood at the head of the queue for so long.
inline constexpr Duration kStalledFor = std::chrono::milliseconds(200);

// What can happen on this link, in either direction.
std::vector<LinkCondition> conditions_of(const LinkProfile& profile);

bool has_met(const LinkCounts& counts, LinkCondition condition);

}  // namespace outrider
