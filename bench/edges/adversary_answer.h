// One answer by an adversary over a verifier of its own threads.
//
// Thread rule: blocks its caller. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bench/edges/adversary.h"
#include "common/base/status.h"
#include "common/protocol/verifier.h"

namespace outrider {

// The answer's tokens. Rounds with a chain of that length leave after each verdict, strays while
// passes run. INTERNAL if the verifier breaks the protocol.
Result<std::vector<TokenId>> answer_with_adversary(Verifier& verifier, AdversaryScript script,
                                                   int chain_length, std::uint64_t seed);

}  // namespace outrider
