// A profile that replays a trace of a real link (trace_file.h).
//
// Thread rule: free functions that read files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/link/path/link_profile.h"
#include "common/base/status.h"

namespace outrider {

// Reads the file and those that belong to it: NAME.up beside NAME.down, delay_NAME.txt beside
// bw_NAME.txt. What a trace does not say is assumed, and LinkProfile::chosen says so: the same
// rates in the direction that has no file of its own, 20 ms one way, a queue of 100 packets.
//
// offset: where in the trace the link starts; wraps at its end.
// Errors: those of read_file() and trace_file.h.
Result<LinkProfile> load_trace_profile(const std::string& file, Duration offset);

}  // namespace outrider
