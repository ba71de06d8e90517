// What a link is like in both directions, and where its numbers come from.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/link/path/path_settings.h"
#include "common/base/status.h"

namespace outrider {

struct LinkProfile {
  std::string name;
  PathSettings up;                   // from the edge to the server
  PathSettings down;                 // from the server to the edge
  std::optional<Duration> reset_at;  // connections are reset then; a proxy's links only
  // Numbers that no measurement or known tool stands for: our own choice. One clause.
  std::string chosen;
  std::string source;  // of the others

  // One line for people: what was asked for.
  std::string description() const;
};

// The table, in the order in which people list it: ethernet wifi wifi-roam 5g lte 4g-fast 4g-slow
// 3g 3g-slow starlink satellite flaky offline.
std::vector<LinkProfile> link_profiles();

// A fixed delay each way and nothing else.
LinkProfile delay_profile(Duration one_way);

// INVALID_ARGUMENT for a name that the table lacks; the message lists those it has.
Result<LinkProfile> find_link_profile(const std::string& name);

}  // namespace outrider
