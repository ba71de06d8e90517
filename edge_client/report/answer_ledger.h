// The usage record of an answer (common/serving/ledger). Bytes are with framing.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/serving/ledger/ledger_entry.h"
#include "edge_client/report/answer_record.h"

namespace outrider {

LedgerEntry ledger_entry(const AnswerRecord& record);

}  // namespace outrider
