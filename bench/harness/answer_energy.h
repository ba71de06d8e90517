// The modelled energy of a simulated answer (bench/cost/energy.h), by where its models computed.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/cost/energy.h"
#include "bench/harness/grid_plan.h"
#include "edge_client/report/answer_record.h"
#include "sim/activity.h"

namespace outrider {

// kAlone: the draft is the target, and there is no server; kStrongEdge: no server either; kCloud:
// both models compute on the server, and the messages are those of deliver() in `record`.
AnswerEnergy energy_of(const EnergyModel& model, DraftPlace place, const Activity& activity,
                       const AnswerRecord& record);

// Draft and target on one device: so many passes of the target, with flash_bytes streamed for them.
AnswerEnergy energy_from_flash(const EnergyModel& model, const Activity& activity, double passes,
                               double flash_bytes);

}  // namespace outrider
