// The edge's checks of what the verifier says about its passes. A server is an untrusted peer, and
// text that was shown cannot be taken back: nothing is committed before it has passed these checks.
//
// A wrong Started, Verdict or Usage ends the answer. A wrong exit report is counted and ignored: it
// is advice, and can change when something is drafted and sent, but never a token of the text.
//
// Thread rule: pure functions. Errors: FAILED_PRECONDITION that names the field, its value and what
// was expected. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/status.h"
#include "common/decoding/drafting/hypothesis_tree.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/tree/mirrored_tree.h"

namespace outrider {

// The edge's view of the stream when a message arrives.
struct StreamView {
  const MirroredTree& tree;
  const Opened& opened;
  Position prompt_length = 0;
  Position end_position = 0;
  std::uint32_t next_pass = 0;
  const std::optional<Started>& started;           // the pass that runs; nothing between passes
  bool accepts_server_nodes = false;               // as Open says
  std::optional<std::uint32_t> top_logprobs = {};  // the same
  // The first of the prompt's tokens whose log-probabilities are still to come; nothing: they were
  // not asked for in this stream.
  std::optional<Position> unscored = {};
  bool wants_digests = false;  // as Open says
};

Status check_started(const Started& started, const StreamView& view);
Status check_verdict(const Verdict& verdict, const StreamView& view);
Status check_prompt_logprobs(const PromptLogprobs& scored, const StreamView& view);
Status check_usage(const Usage& usage, const StreamView& view);

// The advice of the report, or nothing if the report is useless: its pass does not run, it is not
// newer than last_seq, the target has no such exit, its leaf is no node of this pass, next_token is
// outside the vocabulary, or what follows the leaf is a node of this pass, so that the walk would
// go on along nodes of this edge's.
std::optional<ExitAdvice> read_report(const ExitReport& report, std::uint32_t last_seq,
                                      const StreamView& view);

}  // namespace outrider
