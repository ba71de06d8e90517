// How a stream begins: what Open says, in which pieces a long prefix follows it, what Opened must
// say in return, and what the user learns about the target.
//
// A prefix of more than a few thousand ids is sent in pieces: the verifier waits as long as they
// keep coming. A reconnect sends only the hash of the prefix, and the ids only if the verifier asks
// for them (Notice::Kind::kSendPrefix).
//
// Thread rule: pure functions. Errors: INVALID_ARGUMENT or FAILED_PRECONDITION that name the field,
// its value and what was expected. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/speculation/speculation_actions.h"

namespace outrider {

struct DecodingOptions;
class Speculator;

struct StreamStart {
  std::vector<TokenId> prefix;
  Position end_position = 0;
  Policy policy;
  bool scores_prompt = false;  // as Open::prompt_logprobs
};

// last: the Opened of the stream before; default-constructed if there was none.
Open make_open(const DecodingOptions& options, const Opened& last, StreamStart start);

// True if prefix_pieces() must be sent right after such an Open.
bool goes_in_pieces(std::size_t prefix_length, const Opened& last);
std::vector<Prefix> prefix_pieces(std::span<const TokenId> prefix);

// A target that opens must state sane limits, and be the model and arithmetic of the last stream,
// as far as the options demand it.
Status check_opened(const Opened& opened, const Opened& last, const DecodingOptions& options);

// For the first stream: which target answers, and whether the draft speculates.
std::vector<Say> target_lines(const DecodingOptions& options, const Opened& opened,
                              const Speculator& speculation);
// For later streams: that the text may differ, if this target is another model or computes
// otherwise.
std::vector<Say> other_target_lines(const Opened& before, const Opened& now);

}  // namespace outrider
