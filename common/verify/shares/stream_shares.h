// What each peer's streams have of one verifier, and who has too much of it.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/verify/scheduler_options.h"
#include "common/verify/shares/turns.h"
#include "common/verify/stream_event.h"
#include "common/verify/verify_stream.h"

namespace outrider {

using StreamMap = std::map<StreamId, VerifyStream>;

// Whether this group has, or all have, more streams without a session than they may.
bool too_many_unopened(const StreamMap& streams, const std::string& group);

// Of the streams that gather their Opens, who has to give way now that this group has more;
// nothing: all is within bounds.
std::optional<StreamId> gathered_too_much(const StreamMap& streams, const std::string& group);

// When the stream's tenant may have its next turn; in the past: now.
TimePoint ready_at(const SchedulerOptions& options, const VerifyStream& stream);

// The streams with a session.
std::vector<TurnSeeker> turn_seekers(const StreamMap& streams, const SchedulerOptions& options,
                                     TimePoint now);

}  // namespace outrider
