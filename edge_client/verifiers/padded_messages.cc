// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/padded_messages.h"

#include "proto/codec.h"
#include "proto/frame_padding.h"

namespace outrider {

std::string PaddedMessages::serialize(const EdgeMessage& message) {
  std::string bytes = outrider::serialize(message);
  ++of_pass_;
  last_acknowledged_.acked_position = message.acked_position;
  last_acknowledged_.acked_reports = message.acked_reports;
  if (on_) pad_frame(bytes);
  return bytes;
}

std::vector<std::string> PaddedMessages::fill_up() {
  std::vector<std::string> lacking;
  while (on_ && of_pass_ < kPaddedMessagesPerPass) lacking.push_back(serialize(last_acknowledged_));
  of_pass_ = 0;
  return lacking;
}

}  // namespace outrider
