// One answer in virtual time: the real models at an emulated device's pace and an emulated link's
// delay, in as little real time as the models themselves take.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/sim/sim_edge.h"
#include "bench/sim/sim_link.h"
#include "bench/sim/sim_server.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/emulated/pace.h"
#include "common/model/model.h"
#include "common/verify/scheduler_types.h"

namespace outrider {

// An emulated device that streams its target from flash (LEVER): when the layers of a pass are
// there, when they compute, and what is left of the processor for the draft.
//
// A layer computes when it has been read. Reading goes on without rest while a buffer is free, into
// the next pass too (docs/flash-streaming.md); draft and target share one processor, and the target
// goes first.
//
//   reads    |1 |2 |3 |4 |1'|2'|
//   target      [1][2] [3] [4]          draft: between the brackets, and between passes
struct FlashPace {
  int layers = 32;
  double read_ms = 0;      // of the whole target
  double head_share = 0;   // of reading and of computing: the output matrix
  PaceCurve compute = {};  // of a pass by rows, without reading
  double resident = 0;     // share of the layers that stay in memory, the first ones
  int buffers = 4;         // layers that are read ahead
  bool overlapped = true;  // else a layer is read when the one before has computed
};

class FlashDevice final {
 public:
  explicit FlashDevice(const FlashPace& pace);

  // A pass begins; how long it takes. Passes follow each other. layers: of the real model, whose
  // share of them the ended rows go through here too. The head of an exit computes, for each row,
  // what the output matrix does, and reads nothing: exits keep a copy of their own in memory.
  Duration pass(TimePoint now, const PassRowCounts& rows, std::int32_t layers);

  // How much of this time the draft had.
  Duration left_for_draft(TimePoint from, TimePoint to) const;

 private:
  struct Section {
    Duration read{};  // 0: it is in memory
    double compute_share = 0;
  };
  TimePoint read_section(const Section& section, TimePoint wanted);

  const FlashPace pace_;
  std::vector<Section> sections_;   // layers and the output matrix, in the order of a pass
  TimePoint reader_free_{};         // when what is being read is there
  std::deque<TimePoint> released_;  // when the last `buffers` sections that were streamed were done
  std::deque<std::pair<TimePoint, TimePoint>> busy_;  // when the target computed, lately
};

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
  std::uint64_t bytes_up = 0;                    // of messages, about (message_size())
  std::uint64_t bytes_down = 0;
  PruneCounts pruned = {};
};

// step_takes of `setup` is the devices'. Errors: those that the answer ended with; UNAVAILABLE
// where nothing happens any more, as on a link on which nothing arrives.
Result<VirtualAnswer> answer_in_virtual_time(const VirtualDevices& devices, SimEdgeSetup setup);

}  // namespace outrider
