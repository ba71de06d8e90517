// One pass as plain values: the rows that the device computes, and the walk along them that the law
// of choice takes.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/verify/session/target.h"

namespace outrider {

// The rows of one pass: tokens of the committed text that have no keys and values yet, then nodes.
struct PassPlan {
  struct NodeRow {
    TokenId token;
    std::int32_t parent;  // an earlier index of `nodes`; -1: the last of `tokens`
    NodeId id = 0;
    float confidence = 1;  // the edge's: that it stands if its parent does
    bool ended = false;    // by a pruner, in the middle of the pass: it has no logits
  };

  Position position = 0;        // of tokens[0]: as many positions have keys and values
  std::vector<TokenId> tokens;  // at least one
  std::vector<NodeRow> nodes;
  // The guesses of the edge's draft by row_after(), drafted or not. Empty if they are not known.
  std::vector<std::vector<DraftCandidate>> candidates = {};
  bool decides = true;  // false: a chunk of the prefill, wants no logits
  bool scores = false;  // logits are wanted behind each of `tokens`, for the token that follows it
  bool exits = false;   // the edge wants to hear of early exits
  std::uint32_t pass = 0;
  Duration queued{0};  // the session wanted the device for so long before the pass

  std::size_t rows() const { return tokens.size() + nodes.size(); }
  // How many of `tokens` are scored: the last one of a pass that decides is followed by a choice.
  std::size_t scored_rows() const { return scores ? tokens.size() - (decides ? 1 : 0) : 0; }
};

// The readings of a pass's rows beside the tokens, where the Open asks for them.
struct PassReadings {
  std::vector<TokenLogprobs> scored = {};   // of the tokens behind the scored rows
  std::vector<TokenLogprobs> walk = {};     // of the tokens of the walk
  std::vector<std::uint64_t> digests = {};  // of the walk's rows, as Verdict's
};

// The most that the owner of a session allows its pass to take.
struct PassBounds {
  static constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

  // Tokens of text without keys and values, at least 1; a pass that cannot read all decides
  // nothing.
  std::size_t tokens = kAny;
  std::size_t nodes = kAny;
};

// The row whose logits say what follows PassPlan::nodes[node] or, for -1, the text.
inline std::size_t row_after(std::int32_t node) {
  return static_cast<std::size_t>(std::int64_t{node} + 1);
}

// The tokens of the nodes from the root to the one that the row follows.
std::vector<TokenId> path_to(const PassPlan& plan, std::size_t row);

// The law of choice applied to the logits of a row (row_after()); position is that of the token to
// choose.
using Chooser = std::function<TokenId(std::size_t row, Position position)>;

// Where a chooser leads from the root along the nodes of a pass that went to its end.
struct PassWalk {
  std::int32_t leaf = -1;            // index of the last node that stands; -1: none does
  std::vector<TokenId> tokens = {};  // the choices, at least one; the last is no node's
};

// Where an answer ends.
struct EndRule {
  Position end_position = 0;           // of prefix and answer
  std::vector<TokenId> stop_ids = {};  // rising

  bool stops(TokenId token) const;
  // The answer is over with this token at this position.
  bool ends_at(TokenId token, Position position) const;
};

EndRule make_end_rule(const Open& open, const Target& target);

// From the root at position `end`, by the law of choice along the nodes of the pass, and the next
// token.
PassWalk walk_nodes(const PassPlan& plan, Position end, const EndRule& end_rule,
                    const Chooser& choose);

}  // namespace outrider
