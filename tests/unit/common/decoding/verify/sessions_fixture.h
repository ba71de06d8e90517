// Streams that come, send and end at a scheduler over a toy model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/decoding/protocol/messages.h"
#include "tests/unit/common/decoding/verify/scheduler_fixture.h"

namespace outrider {

inline const std::string kKey(32, 'a');
inline const StreamOwner kAlice{"alice", "alice"};
inline const StreamOwner kBob{"bob", "bob"};

class SessionsTest : public SchedulerTest {
 protected:
  void send(StreamId stream, EdgeMessage::Body body, Position acked = 0) {
    scheduler().receive(stream, {acked, 0, std::move(body)}, now());
  }
  static std::vector<TokenId> long_text(std::size_t length) {
    std::vector<TokenId> text;
    for (std::size_t i = 0; i < length; ++i) text.push_back(static_cast<TokenId>(i % 7));
    return text;
  }
  static Open without_prefix(Open open) {
    open.prefix_length = static_cast<Position>(open.prefix.size());
    open.prefix.clear();
    return open;
  }
  void finish_all() {
    while (turn() != 0) {
    }
  }
};

}  // namespace outrider
