// The first messages of a stream: Open, and the prefix where it goes beside it.
//
// A long prefix goes in pieces, as the verifier waits for as long as they keep coming. A reconnect
// names it by its hash, and sends it only if the verifier asks (Notice::Kind::kSendPrefix).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/protocol/messages.h"
#include "edge_client/session/decoding_options.h"

namespace outrider {

struct StreamStart {
  std::vector<TokenId> prefix;
  Position end_position = 0;
  Policy policy;
};

// last: what the stream before opened with; as constructed if there was none.
Open make_open(const DecodingOptions& options, const Opened& last, StreamStart start);

// What a target must be that opens now: like the last one, as far as the options ask for it. Of the
// first one: anything.
Opened expected_of(const Opened& opened, const Opened& last, const DecodingOptions& options);

// True if prefix_pieces() are to follow such an Open at once.
bool goes_in_pieces(std::size_t prefix_length, const Opened& last);
std::vector<Prefix> prefix_pieces(std::span<const TokenId> prefix);

}  // namespace outrider
