// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/answer_ledger.h"

namespace outrider {

LedgerEntry ledger_entry(const AnswerReport& report) {
  const DecodingStats& stats = report.stats;
  LedgerEntry entry{.prompt_tokens = stats.prompt_tokens,
                    .cached_tokens = stats.usage ? stats.usage->cached_tokens : 0,
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
