// SPDX-License-Identifier: Apache-2.0
#include "common/verify/shares/group_shares.h"

#include <algorithm>

namespace outrider {

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

}  // namespace outrider
