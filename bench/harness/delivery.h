// Answers that are made beside the target and reach the user over the link: what a contender whose
// draft needs no link pays for it. The request goes up, and each verdict's tokens come down, over
// the link's profile; nothing waits for a round trip in between.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "edge_client/report/answer_record.h"
#include "emulation/path/link_profile.h"

namespace outrider {

// Moves the times of `record`, which count from the request's arrival, to those at the user; its
// traffic becomes what crosses the link, and its round trip the profile's. connect_trips: before
// the request (emulation/path/stream_path.h). offset, seed: as link_offset() and link_seed().
// UNAVAILABLE if something never arrives.
Status deliver(const LinkProfile& link, int connect_trips, Duration offset, std::uint64_t seed,
               AnswerRecord& record);

}  // namespace outrider
