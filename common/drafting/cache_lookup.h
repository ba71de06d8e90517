// What the pre-draft cache held when a verdict came (docs/pre-draft-cache.md).
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/types.h"

namespace outrider {

struct CacheLookup {
  std::size_t walked = 0;                 // tokens of the verdict that are nodes
  bool named = false;                     // all of them are
  std::size_t drafted = 0;                // nodes of the next round that are there
  bool whole = false;                     // all of it is
  bool in_step = false;                   // the step that is out runs a row of the path or under it
  NodeId sent_id = 0;                     // of that round's first node; 0: it was not sent
  std::optional<std::int32_t> exit = {};  // the first exit that named this outcome
  double own_chance = 0;   // the draft's own guess of its last token; 0: it never guessed it
  bool runner_up = false;  // the draft guessed that token, but not as the likeliest

  // Drafted tokens of that round. How many they will be where it is not whole yet shows only as it
  // is drafted: as many as is usual, but more than are there.
  std::size_t length(std::size_t usual, std::size_t longest) const {
    return std::min(longest, whole ? drafted : std::max(usual, drafted + 1));
  }
};

}  // namespace outrider
