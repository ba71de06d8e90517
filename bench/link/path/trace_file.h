// Traces of real links, as text:
//
//   parse_opportunities  mahimahi: one time in ms a line, at which 1500 bytes may pass; ascending,
//                        repeats allowed; the last is the period
//   parse_rates          two columns: seconds, Mbit/s; ascending seconds, the first is where it
//   starts parse_delays         one delay in ms a line, for 10 ms each (Starlink, LeoCC)
//
// `name` stands in errors, with the line. Errors: INVALID_ARGUMENT for a file that is empty, or
// lets nothing pass, and for a line that is no number, negative, not finite, too large, or goes
// back in time. Blank lines are passed over; CR LF ends a line too.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "bench/link/path/path_settings.h"
#include "common/base/status.h"

namespace outrider {

Result<OpportunityTrace> parse_opportunities(std::string_view text, const std::string& name);
Result<RateTrace> parse_rates(std::string_view text, const std::string& name);
Result<DelayTrace> parse_delays(std::string_view text, const std::string& name);

// Whether the first line that is not blank has two columns.
bool has_two_columns(std::string_view text);

}  // namespace outrider
