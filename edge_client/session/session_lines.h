// What a session tells the user of its target and its link, in words.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "edge_client/session/decoding_options.h"
#include "edge_client/session/stream_state.h"
#include "edge_client/speculation/speculation_actions.h"

namespace outrider {

// Of the first stream: which target answers, and whether the draft speculates.
std::vector<Say> target_lines(const DecodingOptions& options, const Opened& opened,
                              const Speculator& speculation);
// INVALID_ARGUMENT if the prompt leaves no room in the context.
Status check_prompt_fits(Position prompt_length, Position context);

// A Notice came.
Say notice_line(const StreamState& stream);
// timeout: of retries.
Say link_lost_line(const Status& why, Duration timeout);
Say link_back_line(std::size_t answer_tokens);
Status silent_too_long(Duration silence);
// Of another stream than the first: the text may differ, as this target is or computes otherwise.
std::vector<Say> other_target_lines(const Opened& before, const Opened& now);
Status gave_up(Duration timeout, const std::string& last_error);

}  // namespace outrider
