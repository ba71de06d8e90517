// A profile that replays a trace of a real link.
//
// Thread rule: free functions that read files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "emulation/path/link_profile.h"

namespace outrider {

// Traces of real links, as text:
//
//   parse_opportunities  mahimahi: one time in ms a line, at which 1500 bytes may pass; ascending,
//                        repeats allowed; the last is the period
//   parse_rates          two columns: seconds, Mbit/s; ascending seconds, the first is the start
//   parse_delays         one delay in ms a line, for 10 ms each (Starlink, LeoCC)
//
// Errors name `name` and the line. INVALID_ARGUMENT for a file that is empty or lets nothing pass,
// and for a line that is no number, negative, not finite, too large, or goes back in time. Blank
// lines are skipped; CR LF ends a line too.
Result<OpportunityTrace> parse_opportunities(std::string_view text, const std::string& name);
Result<RateTrace> parse_rates(std::string_view text, const std::string& name);
Result<DelayTrace> parse_delays(std::string_view text, const std::string& name);

// Whether the first line that is not blank has two columns.
bool has_two_columns(std::string_view text);

// Reads the file and those that belong to it: NAME.up beside NAME.down, delay_NAME.txt beside
// bw_NAME.txt. Values that a trace lacks are assumed, and LinkProfile::chosen lists them: the same
// rates in the direction without a file of its own, 20 ms one way, a queue of 100 packets.
//
// offset: where in the trace the link starts; wraps at its end.
// Errors: those of read_file() and of parsing.
Result<LinkProfile> load_trace_profile(const std::string& file, Duration offset);

}  // namespace outrider
