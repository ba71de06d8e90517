// One answer in virtual time: the real models at an emulated device's pace and an emulated link's
// delay, in as little real time as the models themselves take.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/sim/flash_device.h"
#include "bench/sim/sim_edge.h"
#include "bench/sim/sim_link.h"
#include "common/base/status.h"
#include "common/model/emulated/pace.h"
#include "common/model/model.h"
#include "common/verify/scheduler_options.h"
#include "common/verify/scheduler_stats.h"

namespace outrider {

// A device, a link and a device.
struct VirtualDevices {
  Model& target;
  SchedulerOptions scheduling;  // with the target's exits
  PaceCurve pass;               // of the target, by rows
  double exit_cost = 1;         // how many times as long a pass with exits takes
  Model& draft;
  PaceCurve step;  // of the draft, by rows
  SimLink::Options link;
  FlashDevice* flash = nullptr;  // instead of `pass`: target and draft share this device
};

struct VirtualAnswer {
  std::vector<TokenId> ids;
  DecodingStats stats;  // times are virtual
  Finish finish;
  std::string target;                            // its name, as it was opened
  std::optional<std::string> speculation_ended;  // why
  std::uint64_t bytes_up = 0;                    // of messages, about (message_size.h)
  std::uint64_t bytes_down = 0;
  PruneCounts pruned = {};
};

// step_takes of `setup` is the devices'. Errors: those that the answer ended with; UNAVAILABLE
// where nothing happens any more, as on a link on which nothing arrives.
Result<VirtualAnswer> answer_in_virtual_time(const VirtualDevices& devices, SimEdgeSetup setup);

}  // namespace outrider
