// The edge's checks of exit reports. A report is advice from an untrusted peer: it can change when
// something is drafted and sent, never a token of the text, so a wrong one ends nothing; it is
// counted and forgotten.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "common/drafting/hypothesis_tree.h"
#include "common/protocol/messages.h"
#include "edge_client/session/message_checks.h"

namespace outrider {

// What the report advises, or nothing if it is of no use: of a pass that does not run (late, or
// never heard of), not newer than last_seq (repeated, out of order), of an exit the target does
// not have, ending at a node that is not of this pass, or contradicting the walk (next_token is a
// child that the pass took), or with a token outside the vocabulary.
std::optional<ExitAdvice> read_report(const ExitReport& report, std::uint32_t last_seq,
                                      const StreamView& view);

}  // namespace outrider
