// An emulated device that streams its target from flash (LEVER): when the layers of a pass are
// there, when they compute, and what is left of the processor for the draft.
//
// A layer computes when it has been read. Reading goes on without rest while a buffer is free, into
// the next pass too (docs/flash-streaming.md); draft and target share one processor, and the target
// goes first.
//
//   reads    |1 |2 |3 |4 |1'|2'|
//   target      [1][2] [3] [4]          draft: between the brackets, and between passes
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "bench/sim/deferred_model.h"
#include "common/base/clock.h"
#include "common/model/emulated/pace.h"

namespace outrider {

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

}  // namespace outrider
