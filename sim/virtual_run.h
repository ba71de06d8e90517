// One answer in virtual time: the real models at an emulated device's pace and an emulated link's
// delay. Real time passes only for the models' own computing.
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

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/engine/model/emulated/pace.h"
#include "common/engine/model/model.h"
#include "sim/activity.h"
#include "sim/sim_edge.h"
#include "sim/sim_link.h"
#include "sim/sim_server.h"

namespace outrider {

// An emulated device that streams its target from flash (LEVER): when a pass's layers are read,
// when they compute, and how much of the processor is left for the draft.
//
// A layer computes when it has been read. Reading continues while a buffer is free, into the next
// pass too (docs/flash-streaming.md). Draft and target share one processor, and the target has
// priority.
//
//   reads    |1 |2 |3 |4 |1'|2'|
//   target      [1][2] [3] [4]          draft: between the brackets, and between passes
struct FlashPace {
  int layers = 32;
  double read_ms = 0;      // of the whole target
  double head_share = 0;   // of reading and of computing, for the output matrix
  PaceCurve compute = {};  // of a pass by rows, without reading
  double resident = 0;     // share of the layers that stay in memory, the first ones
  int buffers = 4;         // layers that are read ahead
  bool overlapped = true;  // false: a layer is read when the one before has computed
};

class FlashDevice final {
 public:
  explicit FlashDevice(const FlashPace& pace);

  // Starts a pass; returns its duration. Passes follow each other. layers: of the real model; rows
  // that end after a share of them end after the same share here. An exit's head computes as much
  // per row as the output matrix, and reads nothing: exits keep their own copy in memory.
  Duration pass(TimePoint now, const PassRowCounts& rows, std::int32_t layers);

  // The share of this time that the draft had.
  Duration left_for_draft(TimePoint from, TimePoint to) const;

  // When its layers computed, and how long its flash was read.
  const std::vector<BusySpan>& computed() const { return computed_; }
  Duration reading() const { return reading_; }

 private:
  struct Section {
    Duration read{};  // 0: it is in memory
    double compute_share = 0;
  };
  TimePoint read_section(const Section& section, TimePoint wanted);

  const FlashPace pace_;
  std::vector<Section> sections_;   // layers and the output matrix, in the order of a pass
  TimePoint reader_free_{};         // when the current read ends
  std::deque<TimePoint> released_;  // when the last `buffers` streamed sections were done
  std::deque<std::pair<TimePoint, TimePoint>> busy_;  // when the target computed recently
  std::vector<BusySpan> computed_;                    // the same of all passes
  Duration reading_{0};
};

// The devices of target and draft, and the link between them.
struct VirtualDevices {
  Model& target;
  SchedulerOptions scheduling;  // with the target's exits
  PaceCurve pass;               // of the target, by rows
  double exit_cost = 1;         // how many times as long a pass with exits takes
  Model& draft;
  PaceCurve step;              // of the draft, by rows
  PaceCurve server_step = {};  // of the draft beside the target, if `scheduling` names one
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
  DraftExperience draft_experience = {};               // of a draft beside the target, afterwards
  std::optional<DeadlineDecorator::Given> given = {};  // nothing was due, or all was there by then
  Activity activity = {};
};

// step_takes of `setup` is replaced by the devices'. text: null: nobody reads it. Errors: those
// with which the answer ended; UNAVAILABLE if no event is left, as on a link on which nothing
// arrives.
Result<VirtualAnswer> answer_in_virtual_time(const VirtualDevices& devices, SimEdgeSetup setup,
                                             AnswerText* text = nullptr);

}  // namespace outrider
