// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/answer_ledger.h"

#include <algorithm>
#include <cstdint>

namespace outrider {
namespace {

// Usage is of the last stream, whose prefix holds what earlier ones answered.
std::uint64_t cached_tokens(const DecodingStats& stats) {
  if (!stats.usage) return 0;
  return std::min<std::uint64_t>(stats.prompt_tokens, stats.usage->cached_tokens);
}

}  // namespace

LedgerEntry ledger_entry(const AnswerReport& report) {
  const DecodingStats& stats = report.stats;
  LedgerEntry entry{.prompt_tokens = stats.prompt_tokens,
                    .cached_tokens = cached_tokens(stats),
                    .completion_tokens = stats.completion_tokens,
                    .passes = stats.passes,
                    .rows = stats.rows,
                    .rows_died = stats.num_draft_tokens - stats.num_accepted_tokens,
                    .device = stats.target_compute,
                    .own = LedgerEntry::OwnDevice{.target = report.failover.offline_compute,
                                                  .draft = stats.draft_compute},
                    .bytes = {},
                    .joules = report.joules};
  if (report.traffic) entry.bytes = {report.traffic->framed_up, report.traffic->framed_down};
  return entry;
}

}  // namespace outrider
