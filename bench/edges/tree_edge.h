// An edge that sends more than any policy would: beside a chain of guesses random trees, deep and
// wide, nodes that repeat others, nodes that are dead on arrival, anchors in the past; before the
// stream is opened, after verdicts and while passes run. Whatever it sends, the text must be the
// target's.
//
// Thread rule: blocks its caller. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "common/protocol/verifier.h"

namespace outrider {

struct TreeScript {
  Open open;                       // on_request
  std::span<const TokenId> right;  // what the target answers; guesses are right three times in four
  int chain_length = 4;
  std::int32_t vocab_size = 0;
  std::uint64_t seed = 0;
};

// The answer's tokens. INTERNAL if the verifier breaks the protocol.
Result<std::vector<TokenId>> answer_with_trees(Verifier& verifier, const TreeScript& script);

}  // namespace outrider
