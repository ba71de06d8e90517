// What waits for the engine's compute thread, in order of arrival, bounded for each stream and
// group.
//
// Thread rule: none of its own; the engine's lock guards it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/protocol/messages.h"
#include "common/verify/reports/exit_report_channel.h"
#include "common/verify/shares/group_shares.h"
#include "common/verify/stream_event.h"

namespace outrider {

class EngineInbox final {
 public:
  // What one stream may have waiting. An edge that keeps the protocol has at most max_nodes nodes
  // and some acknowledgements on their way, besides its one Open.
  static constexpr std::size_t kMaxMessages = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
  // What the streams of one group (a tenant, an address) may have waiting, and all together: who
  // has most loses his stream.
  static constexpr std::size_t kMaxBytesOfGroup = std::size_t{16} << 20;
  static constexpr std::size_t kMaxBytesOfAll = std::size_t{64} << 20;

  struct Connected {
    std::string session_id;
    std::shared_ptr<ExitReportChannel> reports;
    StreamOwner owner;
  };
  struct Disconnected {};
  struct Drain {};
  struct Overflow {};  // in place of the messages of a stream that sent too many
  struct Input {
    StreamId stream;
    std::variant<Connected, EdgeMessage, Disconnected, Drain, Overflow> what;
  };

  // Anything but a message.
  void push(Input input) { inputs_.push_back(std::move(input)); }
  // A message of a stream that is connected. group: that of its owner.
  void push_message(StreamId stream, const std::string& group, EdgeMessage message);

  bool empty() const { return inputs_.empty(); }
  // All that waits; the inbox is empty afterwards.
  std::vector<Input> take();

 private:
  struct Waiting {
    std::size_t messages = 0;
    std::size_t bytes = 0;
    bool overflowed = false;
  };

  void overflow(StreamId stream);
  bool supersede_acknowledgement(StreamId stream, const EdgeMessage& message);

  std::vector<Input> inputs_;
  std::map<StreamId, Waiting> waiting_;  // of streams with messages
  GroupShares shares_{kMaxBytesOfGroup, kMaxBytesOfAll};
};

}  // namespace outrider
