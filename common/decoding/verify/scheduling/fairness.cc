// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/fairness.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

namespace outrider {
namespace {

// The part of a group's share that is kept per pass: about five hundred passes count, so that the
// prompt of one question does not make a group greedy.
constexpr double kKeepShare = 0.998;
// A group that had less of the last passes than this part of a row is not active.
constexpr double kMinRows = 0.05;
// So many times its equal share a group may have for the full worth of its tokens.
constexpr double kFreeShares = 1.5;
constexpr double kSteepness = 4;

std::uint64_t place_of(const TurnSeeker& stream) {
  return stream.served > 0 ? stream.served : stream.joined;
}

// The time at which each group was served last. For a group without a turn it is the time when its
// first stream came: a stream that joins takes no place from the others of its group.
std::map<std::string_view, std::uint64_t> places_of_groups(std::span<const TurnSeeker> streams) {
  std::map<std::string_view, std::uint64_t> served;
  for (const TurnSeeker& stream : streams) {
    std::uint64_t& last = served[stream.group];
    last = std::max(last, stream.served);
  }
  std::map<std::string_view, std::uint64_t> places;
  for (const TurnSeeker& stream : streams) {
    const std::uint64_t last = served[stream.group];
    const auto [at, fresh] = places.try_emplace(stream.group, last > 0 ? last : stream.joined);
    if (!fresh && last == 0) at->second = std::min(at->second, stream.joined);
  }
  return places;
}

}  // namespace

TurnOrder::TurnOrder(std::span<const TurnSeeker> streams) {
  std::map<std::string_view, std::size_t> groups;
  for (const auto& [group, place] : places_of_groups(streams)) {
    groups[group] = places_.size();
    places_.push_back(place);
  }
  left_.resize(places_.size());
  for (const TurnSeeker& stream : streams) {
    if (!stream.wants) continue;
    left_[groups.at(stream.group)].push_back({stream.rank, place_of(stream), stream.stream});
  }
  for (std::vector<Seeker>& group : left_) std::ranges::make_heap(group, std::greater<>());
}

// All streams of a group have the group's place, so that the first of each is enough to compare.
std::optional<StreamId> TurnOrder::next() {
  const auto key = [&](std::size_t group) {
    const Seeker& first = left_[group].front();
    return std::tuple(first.rank, places_[group], first.place, first.stream);
  };
  std::optional<std::size_t> next;
  for (std::size_t group = 0; group < left_.size(); ++group) {
    if (left_[group].empty()) continue;
    if (!next || key(group) < key(*next)) next = group;
  }
  if (!next) return std::nullopt;
  last_group_ = *next;
  std::vector<Seeker>& group = left_[*next];
  std::ranges::pop_heap(group, std::greater<>());
  const StreamId stream = group.back().stream;
  group.pop_back();
  return stream;
}

void DeviceShares::charge(std::string_view group, std::size_t rows) {
  rows_.try_emplace(std::string(group)).first->second += static_cast<double>(rows);
  all_rows_ += static_cast<double>(rows);
}

void DeviceShares::end_pass() {
  all_rows_ = 0;
  for (auto at = rows_.begin(); at != rows_.end();) {
    at->second *= kKeepShare;
    all_rows_ += at->second;
    at = at->second < kMinRows ? rows_.erase(at) : std::next(at);
  }
}

double DeviceShares::weight(std::string_view group) const {
  const auto mine = rows_.find(group);
  if (mine == rows_.end()) return 1;
  const double times_equal = mine->second / all_rows_ * static_cast<double>(rows_.size());
  return std::pow(std::min(1.0, kFreeShares / times_equal), kSteepness);
}

double DeviceShares::free_part() const {
  return std::min(1.0, kFreeShares / static_cast<double>(std::max<std::size_t>(rows_.size(), 1)));
}

std::size_t longest_round(std::span<const TurnSeeker> streams) {
  std::map<std::string_view, std::size_t> sizes;
  std::size_t largest = 0;
  for (const TurnSeeker& stream : streams) largest = std::max(largest, ++sizes[stream.group]);
  return sizes.size() * largest;
}

void GroupShares::add(StreamId stream, const std::string& group, std::size_t bytes) {
  Held& held = held_.try_emplace(stream, Held{group}).first->second;
  held.bytes += bytes;
  groups_[group] += bytes;
  all_ += bytes;
}

void GroupShares::remove(StreamId stream) {
  const auto at = held_.find(stream);
  if (at == held_.end()) return;
  groups_[at->second.group] -= at->second.bytes;
  all_ -= at->second.bytes;
  held_.erase(at);
}

void GroupShares::clear() {
  held_.clear();
  groups_.clear();
  all_ = 0;
}

std::optional<StreamId> GroupShares::beyond(const std::string& group) const {
  const auto own = groups_.find(group);
  if (own != groups_.end() && own->second > of_group_) return largest_of(group);
  if (all_ <= in_all_) return std::nullopt;
  return largest_of(
      std::ranges::max_element(groups_, {}, [](const auto& entry) { return entry.second; })->first);
}

StreamId GroupShares::largest_of(const std::string& group) const {
  const auto size_in_group = [&](const auto& entry) {
    return entry.second.group == group ? entry.second.bytes : 0;
  };
  return std::ranges::max_element(held_, {}, size_in_group)->first;
}

void PlaceTurns::serve(const std::string& group) {
  last_[group] = ++turns_;
  if (last_.size() <= kGroups) return;
  last_.erase(std::ranges::min_element(last_, {}, [](const auto& entry) { return entry.second; }));
}

std::uint64_t PlaceTurns::last(std::string_view group) const {
  const auto at = last_.find(group);
  return at == last_.end() ? 0 : at->second;
}

std::optional<StreamId> next_to_open(std::span<const PlaceSeeker> streams) {
  std::map<std::string_view, std::size_t> sessions_of;
  for (const PlaceSeeker& stream : streams) sessions_of[stream.group] += stream.waits ? 0 : 1;
  const auto key = [&](const PlaceSeeker& stream) {
    return std::tuple(!stream.waits, stream.rank, !stream.first, sessions_of[stream.group],
                      stream.served, stream.due, stream.since, stream.stream);
  };
  const auto next = std::ranges::min_element(streams, {}, key);
  return next != streams.end() && next->waits ? std::optional(next->stream) : std::nullopt;
}

std::optional<StreamId> last_to_open(std::span<const PlaceSeeker> streams) {
  std::map<std::string_view, std::size_t> waiting_of;
  for (const PlaceSeeker& stream : streams) waiting_of[stream.group] += stream.waits ? 1 : 0;
  const auto key = [&](const PlaceSeeker& stream) {
    return std::tuple(stream.waits, stream.rank, waiting_of[stream.group], stream.since,
                      stream.stream);
  };
  const auto last = std::ranges::max_element(streams, {}, key);
  return last != streams.end() && last->waits ? std::optional(last->stream) : std::nullopt;
}

std::optional<StreamId> least_urgent(std::span<const MemoryHolder> holders,
                                     const MemoryHolder& wanting) {
  const bool has_memory = std::ranges::any_of(
      holders, [&](const MemoryHolder& holder) { return holder.stream == wanting.stream; });
  std::optional<std::tuple<int, int, StreamId>> found;
  for (const MemoryHolder& holder : holders) {
    const int ease = !holder.wants ? 2 : holder.has_had_verdict ? 1 : 0;
    const bool gives =
        !holder.wants || holder.rank > wanting.rank || (holder.rank == wanting.rank && has_memory);
    if (gives) found = std::max(found, std::optional(std::tuple(holder.rank, ease, holder.stream)));
  }
  return found ? std::optional(std::get<StreamId>(*found)) : std::nullopt;
}

}  // namespace outrider
