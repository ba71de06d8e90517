// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/decoding_stats.h"

#include <cstddef>

namespace outrider {

void DecodingStats::record_round(const VerifiedRound& round) {
  if (round.nodes == 0) return;
  ++num_drafts;
  num_draft_tokens += round.nodes;
  num_accepted_tokens += round.accepted;
  rows_died += round.nodes - round.accepted;
  if (drafted_per_position.size() < round.depth()) {
    drafted_per_position.resize(round.depth());
    accepted_per_position.resize(round.depth());
    drafted_per_branch.resize(round.depth());
    accepted_per_branch.resize(round.depth());
  }
  for (std::size_t i = 0; i < round.depth(); ++i) {
    ++drafted_per_position[i];
    add_counts(drafted_per_branch[i], round.drafted[i]);
    accepted_per_branch[i].resize(drafted_per_branch[i].size());
  }
  for (std::size_t i = 0; i < round.accepted; ++i) {
    ++accepted_per_position[i];
    ++accepted_per_branch[i].at(round.accepted_branch[i]);
  }
  const auto rounds = static_cast<double>(num_drafts);
  const auto accepted = static_cast<double>(num_accepted_tokens);
  acceptance_rate = accepted / static_cast<double>(num_draft_tokens);
  acceptance_length = 1 + accepted / rounds;
  acceptance_per_position.clear();
  for (const std::uint64_t count : accepted_per_position) {
    acceptance_per_position.push_back(static_cast<double>(count) / rounds);
  }
}

}  // namespace outrider
