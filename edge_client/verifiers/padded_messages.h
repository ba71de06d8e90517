// A stream's messages as bytes, padded if the edge or its server wants that: all of one size, and
// at least kPaddedMessagesPerPass for each pass (proto/frame_padding.h).
//
// Thread rule: owned by its stream's lock. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/protocol/messages.h"

namespace outrider {

class PaddedMessages final {
 public:
  explicit PaddedMessages(bool on) : on_(on) {}

  // From the next message on.
  void turn_on() { on_ = true; }

  std::string serialize(const EdgeMessage& message);

  // At a verdict: what its pass lacks in messages. They only acknowledge, once more.
  std::vector<std::string> fill_up();

 private:
  bool on_;
  int of_pass_ = 0;  // since the last verdict
  EdgeMessage last_acknowledged_;
};

}  // namespace outrider
