// What streams hold of something that is bounded for each group of them (a tenant, an address) and
// in all: the one who holds most has to give way, so that one who floods takes nothing from others.
//
//   add*  (beyond  remove)*
//
// Thread rule: none of its own. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "common/verify/stream_event.h"

namespace outrider {

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
