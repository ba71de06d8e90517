// When the parts of a simulated answer worked, for its modelled energy: each busy span of draft and
// target, each message, and what was read from flash.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

struct BusySpan {
  TimePoint from{};
  TimePoint to{};
};

struct Activity {
  struct Message {
    TimePoint at{};  // when the edge's radio sends or receives it
    std::size_t bytes = 0;
    bool up = false;
  };

  TimePoint end{};               // of the answer; it begins at TimePoint{}
  std::vector<BusySpan> draft;   // steps of the edge's draft, abandoned ones as far as they came
  std::vector<BusySpan> target;  // passes; with a flash, the layers' computing
  std::vector<BusySpan> beside;  // what the draft beside the target computed
  std::vector<Message> messages;
  Duration flash_reading{};  // how long the flash was read, one read after the other
};

}  // namespace outrider
