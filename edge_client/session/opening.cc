// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/opening.h"

#include <algorithm>
#include <utility>

#include "common/protocol/prefix_hash.h"

namespace outrider {
namespace {

// A longer prefix goes in pieces of the other length, each a fraction of a second on a slow link.
constexpr std::size_t kPrefixInOpen = 4096;
constexpr std::size_t kPieceSent = 1024;
static_assert(kPieceSent >= kPrefixPiece);
// From here on a hash is much shorter than the ids.
constexpr std::size_t kPrefixByHash = 128;

// Verifiers that tell an open_timeout know prefixes by their hash.
bool goes_by_hash(std::size_t prefix_length, const Opened& last) {
  return last.limits.open_timeout > Duration{0} && prefix_length >= kPrefixByHash;
}

}  // namespace

Open make_open(const DecodingOptions& options, const Opened& last, StreamStart start) {
  const bool first = last.session_id.empty();
  Open open{.tokenizer_hash = options.tokenizer_hash,
            .sampling = options.sampling,
            .seed = options.seed,
            .prefix = std::move(start.prefix),
            .end_position = start.end_position,
            .policy = start.policy,
            .stop_ids = options.stop_ids,
            .expected_fingerprint = last.fingerprint,
            .expected_arithmetic_id = last.arithmetic_id,
            .replaced_session = first ? options.replaced_session : last.session_id,
            .session_key = options.session_key,
            .prefix_length = 0,
            .prefix_hash = {},
            .accept_other_arithmetic = !first && options.accept_other_arithmetic};
  const std::size_t length = open.prefix.size();
  const bool by_hash = goes_by_hash(length, last);
  if (by_hash) open.prefix_hash = prefix_hash(open.prefix);
  if (by_hash || goes_in_pieces(length, last)) {
    open.prefix_length = static_cast<Position>(length);
    open.prefix.clear();
  }
  return open;
}

Opened expected_of(const Opened& opened, const Opened& last, const DecodingOptions& options) {
  return {.fingerprint = options.accept_other_model ? opened.fingerprint : last.fingerprint,
          .arithmetic_id = options.accept_other_arithmetic || options.accept_other_model
                               ? opened.arithmetic_id
                               : last.arithmetic_id};
}

bool goes_in_pieces(std::size_t prefix_length, const Opened& last) {
  return prefix_length > kPrefixInOpen && !goes_by_hash(prefix_length, last);
}

std::vector<Prefix> prefix_pieces(std::span<const TokenId> prefix) {
  std::vector<Prefix> pieces;
  for (; !prefix.empty(); prefix = prefix.subspan(pieces.back().ids.size())) {
    const auto piece = prefix.first(std::min(prefix.size(), kPieceSent));
    pieces.push_back({{piece.begin(), piece.end()}});
  }
  return pieces;
}

}  // namespace outrider
