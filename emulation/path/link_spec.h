// A link as written on a command line:
//
//   lte                         a profile of the table
//   trace:FILE, trace:FILE@30s  a trace, from 30 s on
//   lte+loss=2%+down.silent=5s  with changes, in both directions or in one (up. or down.)
//   delay=20ms+loss=1%          changes only, of an ideal link
//
// Changes: delay=20ms  rate=5mbit  queue=64kb  loss=2%  duplicate=1%  reorder=1%/30ms (share and
// how much later)  blackout=10s/500ms or blackout=10s/500ms/30s (first, length, period)
// silent=5s (half open from then on)  reset=5s (of connections; has no direction).
//
// Values carry their units, so no number is ambiguous.
//
// Thread rule: reads trace files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "emulation/path/link_profile.h"

namespace outrider {

// Errors: INVALID_ARGUMENT that names the profile, key or value; those of load_trace_profile().
Result<LinkProfile> parse_link(const std::string& spec);

// A list separated by commas; "all" is the whole table.
Result<std::vector<LinkProfile>> parse_links(const std::string& specs);

}  // namespace outrider
