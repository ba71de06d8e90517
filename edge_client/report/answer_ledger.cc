// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/answer_ledger.h"

#include <algorithm>
#include <cstdint>

namespace outrider {
namespace {

// Usage is of the last stream, whose prefix holds what earlier ones answered.
std::uint64_t cached_tokens(const DecodingStats& stats) {
  return std::min(stats.prompt_tokens, stats.cached_tokens.value_or(0));
}

}  // namespace

LedgerEntry ledger_entry(const AnswerRecord& record) {
  const DecodingStats& stats = record.stats;
  LedgerEntry entry{.prompt_tokens = stats.prompt_tokens,
                    .cached_tokens = cached_tokens(stats),
                    .completion_tokens = stats.completion_tokens,
                    .passes = stats.passes,
                    .rows = stats.rows,
                    .rows_died = stats.rows_died,
                    .device = stats.target_compute,
                    .own = LedgerEntry::OwnDevice{.target = record.failover.offline_compute,
                                                  .draft = stats.draft_compute},
                    .bytes = {},
                    .joules = record.joules};
  if (record.traffic) {
    const LinkTraffic& bytes = record.traffic->bytes;
    entry.bytes = {bytes.framed_up, bytes.framed_down};
  }
  return entry;
}

}  // namespace outrider
