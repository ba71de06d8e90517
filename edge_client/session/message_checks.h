// The edge's checks of what the verifier says: a server is a peer, and peers can be wrong. A text
// that was shown cannot be taken back, so nothing is committed before it passed here.
//
// Each returns FAILED_PRECONDITION or INVALID_ARGUMENT with the evidence: field, value, expected.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {

// What the edge knows of the stream when a message arrives.
struct StreamView {
  const MirroredTree& tree;
  const Opened& opened;
  Position end_position = 0;
  std::uint32_t next_pass = 0;
  const std::optional<Started>& started;  // the pass that runs; nothing between passes
};

// expected_*: empty if any will do (the first stream).
Status check_opened(const Opened& opened, const std::string& expected_fingerprint,
                    const std::string& expected_arithmetic_id);
Status check_started(const Started& started, const StreamView& view);
Status check_verdict(const Verdict& verdict, const StreamView& view);
Status check_usage(const Usage& usage, const StreamView& view);

}  // namespace outrider
