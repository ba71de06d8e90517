// The impairments of a profile beside delay and rate, and whether packets met them. A run over a
// link with black-outs is no evidence about black-outs if none occurred in it.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/enum_names.h"
#include "emulation/path/link_profile.h"

namespace outrider {

// The fate of a link's packets, for reports: whether a run met the profile's impairments.

// Counts of one direction.
struct PathCounts {
  std::uint64_t sent = 0;  // all packets; the counts below are subsets
  std::uint64_t queue_full = 0;
  std::uint64_t lost = 0;
  std::uint64_t in_black_out = 0;    // lost in a window that loses all packets
  std::uint64_t in_loss_window = 0;  // lost in a window that loses a share of them
  std::uint64_t stalled = 0;         // at the head of the queue while the trace let nothing pass
  std::uint64_t silent = 0;
  std::uint64_t reordered = 0;
  std::uint64_t duplicated = 0;
  // For a path with a rate: the bytes through its bottleneck, and the time for which that was busy.
  std::uint64_t bytes = 0;
  std::uint64_t busy_ns = 0;

  // Each figure with its name.
  static constexpr auto fields() {
    using Field = std::pair<const char*, std::uint64_t PathCounts::*>;
    return std::to_array<Field>({{"sent", &PathCounts::sent},
                                 {"queue_full", &PathCounts::queue_full},
                                 {"lost", &PathCounts::lost},
                                 {"in_black_out", &PathCounts::in_black_out},
                                 {"in_loss_window", &PathCounts::in_loss_window},
                                 {"stalled", &PathCounts::stalled},
                                 {"silent", &PathCounts::silent},
                                 {"reordered", &PathCounts::reordered},
                                 {"duplicated", &PathCounts::duplicated},
                                 {"bytes", &PathCounts::bytes},
                                 {"busy_ns", &PathCounts::busy_ns}});
  }

  PathCounts& operator+=(const PathCounts& other) {
    for (const auto& [name, figure] : fields()) this->*figure += other.*figure;
    return *this;
  }

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    for (const auto& [name, figure] : fields()) field(name, self.*figure);
  }
};

// Both directions, and the connections on them.
struct LinkCounts {
  PathCounts up = {};
  PathCounts down = {};
  std::uint64_t resets = 0;

  LinkCounts& operator+=(const LinkCounts& other) {
    up += other.up;
    down += other.down;
    resets += other.resets;
    return *this;
  }

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("up", self.up);
    field("down", self.down);
    field("resets", self.resets);
  }
};

enum class LinkCondition : std::uint8_t {
  kPacketLoss,  // single packets and bursts
  kBlackOut,    // a window of time that loses every packet
  kLossWindow,  // a window that loses a share of the packets
  kStall,       // the trace lets nothing pass for half a second or longer
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

// A packet has met a stall if it stood at the head of the queue for this long.
inline constexpr Duration kStalledFor = std::chrono::milliseconds(200);

// The impairments that can occur on this link, in either direction.
std::vector<LinkCondition> conditions_of(const LinkProfile& profile);

bool has_met(const LinkCounts& counts, LinkCondition condition);

}  // namespace outrider
