// From a stream's first message to its session: gathers the prefix, checks the Open, admits.
//
// Thread rule: owned by the table, as is what it refers to. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "common/verify/stream_table.h"

namespace outrider {

class StreamOpener final {
 public:
  explicit StreamOpener(StreamTable& table) : table_(table) {}

  // A message of a stream without a session. An error ends the stream.
  Status receive(StreamId id, VerifyStream& stream, const EdgeMessage& message, TimePoint now);

 private:
  Status begin(StreamId id, VerifyStream& stream, const EdgeMessage& message, TimePoint now);
  Status gather(StreamId id, VerifyStream& stream, const EdgeMessage& message, TimePoint now);
  Status open(StreamId id, VerifyStream& stream, const EdgeMessage& message, TimePoint now);
  Status admit(StreamId id, const SessionName& wanted, TimePoint now);
  std::vector<TokenId> known_prefix(const SessionName& wanted, const Open& open);

  StreamTable& table_;
};

}  // namespace outrider
