// How streams share one verifier, so that a peer with many of them, or one that floods, takes
// nothing from others: whose turn at the device it is, and who gives way where memory is bounded.
//
// Thread rule: none of its own. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/verify/scheduler_types.h"

namespace outrider {

// Turns go round among groups (a tenant, an address), and within a group among its streams. They
// are numbered; a stream that has had none yet stands where it came in.
struct TurnSeeker {
  StreamId stream = 0;
  std::string_view group;
  std::uint64_t joined = 0;  // the last turn of all when it came
  std::uint64_t served = 0;  // its own last turn; 0: it has had none
  bool wants = false;        // the device, now
};

// Those that want the device, in the order of their turns: of the group that was served longest ago
// the stream that was.
//
//   (next serve?)*
class TurnOrder final {
 public:
  explicit TurnOrder(std::span<const TurnSeeker> streams);

  // Each comes once; nothing: nobody is left.
  std::optional<StreamId> next();
  // The last that came has the turn of this number, and its group has been served.
  void serve(std::uint64_t turn) { places_[last_group_] = turn; }

 private:
  struct Seeker {
    StreamId stream;
    std::size_t group;
    std::uint64_t place;
  };

  std::vector<Seeker> left_;
  std::vector<std::uint64_t> places_;  // by group
  std::size_t last_group_ = 0;
};

// How many turns a stream may have to wait for its next, if all want the device.
std::size_t longest_round(std::span<const TurnSeeker> streams);

// What streams hold of something that is bounded for each group and in all: who holds most has to
// give way.
//
//   add*  (beyond  remove)*
class GroupShares final {
 public:
  GroupShares(std::size_t of_group, std::size_t in_all) : of_group_(of_group), in_all_(in_all) {}

  void add(StreamId stream, const std::string& group, std::size_t bytes);
  void remove(StreamId stream);
  void clear();

  // Who has to give way now that this group has more; nothing: all is within bounds.
  std::optional<StreamId> beyond(const std::string& group) const;

 private:
  struct Held {
    std::string group;
    std::size_t bytes = 0;
  };
  StreamId largest_of(const std::string& group) const;

  const std::size_t of_group_;
  const std::size_t in_all_;
  std::map<StreamId, Held> held_;
  std::map<std::string, std::size_t> groups_;
  std::size_t all_ = 0;
};

}  // namespace outrider
