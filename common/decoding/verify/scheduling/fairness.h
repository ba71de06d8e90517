// How streams share one verifier, so that a peer with many of them, or one that floods, takes
// nothing from others: whose turn at the device it is, who gets a place, and who gives way where
// memory is bounded.
//
// Thread rule: none of its own. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/decoding/request/text_options.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"

namespace outrider {

// The rank of a service tier.
constexpr int rank_of(ServiceTier tier) {
  return tier == ServiceTier::kPriority ? 0 : tier == ServiceTier::kDefault ? 1 : 2;
}

// Turns go round among groups (a tenant, an address), and within a group among its streams. They
// are numbered; a stream that has had none yet stands where it came in.
struct TurnSeeker {
  StreamId stream = 0;
  std::string_view group;
  int rank = 0;              // of its service tier; those of a lower one come first
  std::uint64_t joined = 0;  // the last turn of all when it came
  std::uint64_t served = 0;  // its own last turn; 0: it has had none
  bool wants = false;        // the device, now
};

// Those that want the device, in the order of their turns: the most urgent first; of them, of the
// group that was served longest ago the stream that was.
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
    int rank;
    std::uint64_t place;
    StreamId stream;

    friend auto operator<=>(const Seeker&, const Seeker&) = default;
  };

  std::vector<std::vector<Seeker>> left_;  // by group, a heap whose first is the group's next
  std::vector<std::uint64_t> places_;      // by group
  std::size_t last_group_ = 0;
};

// How many turns a stream may have to wait for its next, if all want the device.
std::size_t longest_round(std::span<const TurnSeeker> streams);

// The weight of a service tier's tokens beside those of the default one.
constexpr double weight_of(ServiceTier tier) {
  return tier == ServiceTier::kPriority ? 4 : tier == ServiceTier::kDefault ? 1 : 0.25;
}

// How much of the device each group has had lately. The tokens of one that has more than its share
// count less where rows are dear, so that the others come on as if it were modest.
//
//   (charge* end_pass)*
class DeviceShares final {
 public:
  // The group had so many rows of the pass.
  void charge(std::string_view group, std::size_t rows);
  void end_pass();

  // In (0, 1].
  double weight(std::string_view group) const;
  // The part of the device that each may have for that: in (0, 1].
  double free_part() const;

 private:
  std::map<std::string, double, std::less<>> rows_;  // lately; groups without any are left out
  double all_rows_ = 0;
};

// A stream that has a session, or waits for a place.
struct PlaceSeeker {
  StreamId stream = 0;
  std::string_view group;
  int rank = 0;
  bool waits = false;
  bool first = false;        // of those that wait: its session had a place before
  std::uint64_t served = 0;  // its group's last place, as PlaceTurns counts
  TimePoint since = {};      // when it began to wait
  TimePoint due = {};        // when it is to be answered
};

// When each group last got a place, so that places go round although there may be only one. Bounded
// by kGroups: beyond it the group that was served longest ago is forgotten, and counts as new.
class PlaceTurns final {
 public:
  static constexpr std::size_t kGroups = 1024;

  void serve(const std::string& group);
  // The number of the group's last place; 0: it has had none lately.
  std::uint64_t last(std::string_view group) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> last_;
  std::uint64_t turns_ = 0;
};

// The stream that gets the next place: the most urgent; among equals one that had a place; then,
// of the groups with the fewest sessions, the one that was served longest ago, and of its streams
// the one that is due first. Nothing: no stream waits.
std::optional<StreamId> next_to_open(std::span<const PlaceSeeker> streams);
// The stream that is refused if too many wait: among the least urgent, the last one of the group
// that has most waiting.
std::optional<StreamId> last_to_open(std::span<const PlaceSeeker> streams);

// A stream whose session has keys and values in memory and does not ride in the pass.
struct MemoryHolder {
  StreamId stream = 0;
  int rank = 0;
  bool wants = false;            // the device, now
  bool has_had_verdict = false;  // it has had a verdict since it last began to read its text
};

// The stream that gives up its memory for `wanting`: the least urgent one; one that does not want
// the device before one that has come on, and that before one that has not; among them the
// youngest, which may be `wanting` itself. A stream that wants the device gives nothing to a less
// urgent one. `wanting` without memory waits for its like, else two would take turns and neither
// would come on: it gets memory only of those that do not want the device or are less urgent.
// Nothing: nobody.
std::optional<StreamId> least_urgent(std::span<const MemoryHolder> holders,
                                     const MemoryHolder& wanting);

// The shares of streams in something that is bounded for each group and in all: the stream that
// holds most has to give way.
//
//   add*  (beyond  remove)*
class GroupShares final {
 public:
  GroupShares(std::size_t of_group, std::size_t in_all) : of_group_(of_group), in_all_(in_all) {}

  void add(StreamId stream, const std::string& group, std::size_t bytes);
  void remove(StreamId stream);
  void clear();

  // The stream that has to give way now that this group has more; nothing if all is within bounds.
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
