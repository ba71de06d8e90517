// An answer in virtual time, as an edge's last line would tell it.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/sim/virtual_run.h"
#include "edge_client/report/answer_record.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

// name: what the variant is called; draft: the draft model's name.
AnswerRecord record_of(VirtualAnswer answer, Strategy strategy, const std::string& name,
                       const std::string& draft);

}  // namespace outrider
