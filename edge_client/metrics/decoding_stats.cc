// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/decoding_stats.h"

#include <algorithm>

namespace outrider {
namespace {

std::optional<double> ratio(double numerator, double denominator) {
  if (denominator <= 0) return std::nullopt;
  return numerator / denominator;
}

}  // namespace

void DecodingStats::record_round(const VerifiedRound& round) {
  if (round.nodes == 0) return;
  ++num_drafts;
  num_draft_tokens += round.nodes;
  num_accepted_tokens += round.accepted;
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
}

std::optional<double> DecodingStats::acceptance_rate() const {
  return ratio(static_cast<double>(num_accepted_tokens), static_cast<double>(num_draft_tokens));
}

std::optional<double> DecodingStats::acceptance_length() const {
  const auto mean =
      ratio(static_cast<double>(num_accepted_tokens), static_cast<double>(num_drafts));
  if (!mean) return std::nullopt;
  return 1 + *mean;
}

std::optional<double> DecodingStats::ttft_ms() const {
  if (!started || !first_token) return std::nullopt;
  return to_ms(*first_token - *started);
}

std::optional<double> DecodingStats::tpot_ms() const {
  if (!first_token || !last_token || completion_tokens < 2) return std::nullopt;
  return to_ms(*last_token - *first_token) / static_cast<double>(completion_tokens - 1);
}

std::optional<double> DecodingStats::decode_ms() const {
  if (!first_token || !last_token) return std::nullopt;
  return to_ms(*last_token - *first_token);
}

std::optional<double> DecodingStats::tokens_per_s() const {
  if (!started || !last_token) return std::nullopt;
  return ratio(static_cast<double>(completion_tokens), to_seconds(*last_token - *started));
}

std::optional<double> DecodingStats::tokens_per_pass() const {
  return ratio(static_cast<double>(completion_tokens), static_cast<double>(passes));
}

std::optional<double> DecodingStats::rtt_ms() const {
  if (round_trips.empty()) {
    if (!open_round_trip) return std::nullopt;
    return to_ms(*open_round_trip);
  }
  std::vector<Duration> sorted = round_trips;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return to_ms(*middle);
}

}  // namespace outrider
