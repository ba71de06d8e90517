// SPDX-License-Identifier: Apache-2.0
#include "common/verify/shares/stream_shares.h"

#include <cstddef>

#include "common/verify/shares/group_shares.h"

namespace outrider {
namespace {

// Streams that have not opened a session yet are cheap, but not free: of one group, and of all.
constexpr std::size_t kUnopenedOfGroup = 64;
constexpr std::size_t kUnopenedOfAll = 512;
// What such streams may have gathered of their Opens.
constexpr std::size_t kGatheredBytesOfGroup = std::size_t{16} << 20;
constexpr std::size_t kGatheredBytesOfAll = std::size_t{64} << 20;

}  // namespace

bool too_many_unopened(const StreamMap& streams, const std::string& group) {
  std::size_t of_all = 0;
  std::size_t of_group = 0;
  for (const auto& [id, stream] : streams) {
    if (stream.session() != nullptr) continue;
    ++of_all;
    if (stream.group() == group) ++of_group;
  }
  return of_group > kUnopenedOfGroup || of_all > kUnopenedOfAll;
}

std::optional<StreamId> gathered_too_much(const StreamMap& streams, const std::string& group) {
  GroupShares shares(kGatheredBytesOfGroup, kGatheredBytesOfAll);
  for (const auto& [id, stream] : streams) {
    if (stream.assembly() != nullptr) shares.add(id, stream.group(), stream.assembly()->bytes());
  }
  return shares.beyond(group);
}

TimePoint ready_at(const SchedulerOptions& options, const VerifyStream& stream) {
  if (!options.tenant_ready_at) return TimePoint{};
  return options.tenant_ready_at(stream.name().owner.tenant);
}

std::vector<TurnSeeker> turn_seekers(const StreamMap& streams, const SchedulerOptions& options,
                                     TimePoint now) {
  std::vector<TurnSeeker> seekers;
  for (const auto& [id, stream] : streams) {
    if (stream.session() == nullptr) continue;
    seekers.push_back({.stream = id,
                       .group = stream.group(),
                       .joined = stream.joined(),
                       .served = stream.served(),
                       .wants = stream.wants_device(now) && ready_at(options, stream) <= now});
  }
  return seekers;
}

}  // namespace outrider
