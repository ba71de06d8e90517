// Which rounds to send before the verdict that they are for (DESIGN section 2: "the server mirrors
// the tree"). A sent round whose outcome comes saves the round trip; one whose outcome does not
// come costs its bytes and no row. So the likeliest go first, and the rule weighs
//   - the chance of the outcome,
//   - bytes: an allowance that grows with every committed token, and with time if a budget is set;
//     and the room that the link has (uplink_window.h),
//   - time: a round goes whole, unless waiting for its end would make it late for the verdict.
//
// Thread rule: pure, but for the allowance, which is a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/drafting/drafter.h"

namespace outrider {

// Bytes that may be spent on sending ahead.
class ByteAllowance final {
 public:
  // per_second: 0 for no limit but the one per token.
  explicit ByteAllowance(double per_second) : per_second_(per_second) {}

  // What sending this many nodes in one message takes, framing included.
  static double cost(std::size_t nodes);

  void on_committed(std::size_t tokens);
  void advance(TimePoint now);
  bool covers(std::size_t nodes) const;
  void spend(std::size_t nodes);

 private:
  const double per_second_;
  double by_tokens_ = kFirst;
  double by_time_ = kFirst;
  TimePoint last_{};

  static constexpr double kFirst = 512;  // before anything is committed
};

struct SendingLimits {
  std::size_t whole = 4;  // drafted tokens of a whole round
  std::size_t least = 1;  // of one that is worth sending when it is due
  bool due = false;       // what does not leave now comes too late
  std::size_t room = 0;   // nodes that the verifier takes
  double link_room = std::numeric_limits<double>::infinity();  // bytes that may be under way
  double min_chance = 0.02;                                    // of an outcome whose round is sent
};

// The nodes to send now in one message, parents first. rounds: likeliest first.
std::vector<NodeIndex> nodes_to_send(std::span<const DraftedRound> rounds,
                                     const SendingLimits& limits, const ByteAllowance& allowance);

}  // namespace outrider
