// Answers that are computed beside the target and reach the user over the link. This is the link
// cost of a contender whose draft runs in the cloud. The request goes up, and each verdict's tokens
// come down by the link's profile; nothing waits for a round trip in between.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "edge_client/report/answer_record.h"
#include "emulation/path/link_profile.h"

namespace outrider {

// Changes the times of `record` from the request's arrival at the server to those at the user. Its
// traffic becomes what crosses the link, and its round trip the profile's. connect_trips: before
// the request (emulation/path/stream_path.h). offset, seed: as link_offset() and link_seed().
// UNAVAILABLE if a message never arrives.
Status deliver(const LinkProfile& link, int connect_trips, Duration offset, std::uint64_t seed,
               AnswerRecord& record);

}  // namespace outrider
