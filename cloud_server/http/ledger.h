// The usage record of an ended session (common/serving/ledger).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/serving/ledger/ledger_entry.h"

namespace outrider {

LedgerEntry ledger_entry(const SessionRecord& record);

// The line of the audit log: the tenant's use of the device. prices: null if there are none.
std::vector<LogField> audit_fields(const SessionRecord& record, const Prices* prices);

}  // namespace outrider
