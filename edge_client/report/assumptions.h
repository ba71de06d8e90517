// What an answer assumed of the server, the draft and the link before it had measured anything.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/protocol/messages.h"
#include "edge_client/speculation/pair_profile.h"

namespace outrider {

// Lines for people, each ended; empty where nothing was known.
std::string assumed_text(const Opened& opened, const PairProfiles& learnt);

}  // namespace outrider
