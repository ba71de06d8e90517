// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/http/ledger.h"

namespace outrider {

LedgerEntry ledger_entry(const SessionRecord& record) {
  const Usage& usage = record.usage;
  LedgerEntry entry{.prompt_tokens = usage.prompt_tokens,
                    .cached_tokens = usage.cached_tokens,
                    .completion_tokens = usage.completion_tokens,
                    .passes = usage.passes,
                    .rows = usage.rows,
                    .rows_died = record.draft.tokens - record.draft.accepted,
                    .device = usage.compute,
                    .own = {},
                    .bytes = {},
                    .joules = record.joules};
  if (record.traffic != nullptr) entry.bytes = {record.traffic->up(), record.traffic->down()};
  return entry;
}

std::vector<LogField> audit_fields(const SessionRecord& record, const Prices* prices) {
  std::vector<LogField> fields = {{"session", record.session_id},
                                  {"tenant", record.tenant},
                                  {"request_id", record.request_id},
                                  {"lasted_s", to_seconds(record.lasted)}};
  const LedgerEntry entry = ledger_entry(record);
  const std::vector<LogField> used = ledger_fields(entry, bill_of(prices, entry));
  fields.insert(fields.end(), used.begin(), used.end());
  return fields;
}

}  // namespace outrider
