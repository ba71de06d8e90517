// SPDX-License-Identifier: Apache-2.0
#include "common/verify/engine_inbox.h"

#include <algorithm>
#include <optional>

#include "common/protocol/message_size.h"

namespace outrider {
void EngineInbox::push_message(StreamId stream, const std::string& group, EdgeMessage message) {
  Waiting& waiting = waiting_[stream];
  if (waiting.overflowed || supersede_acknowledgement(stream, message)) return;
  const std::size_t size = sizeof(Input) + size_in_memory(message);
  waiting.messages += 1;
  waiting.bytes += size;
  shares_.add(stream, group, size);
  push({stream, std::move(message)});
  if (waiting.messages > kMaxMessages || waiting.bytes > kMaxBytes) overflow(stream);
  while (const std::optional<StreamId> most = shares_.beyond(group)) overflow(*most);
}

void EngineInbox::overflow(StreamId stream) {
  waiting_[stream].overflowed = true;
  shares_.remove(stream);
  std::erase_if(inputs_, [&](const Input& input) {
    return input.stream == stream && std::holds_alternative<EdgeMessage>(input.what);
  });
  push({stream, Overflow{}});
}

// An edge may acknowledge every verdict of an eager stream, faster than a busy device looks: of
// acknowledgements that wait side by side only the newest counts.
bool EngineInbox::supersede_acknowledgement(StreamId stream, const EdgeMessage& message) {
  if (!std::holds_alternative<AckOnly>(message.body)) return false;
  const auto last = std::find_if(inputs_.rbegin(), inputs_.rend(),
                                 [&](const Input& input) { return input.stream == stream; });
  if (last == inputs_.rend()) return false;
  auto* waiting = std::get_if<EdgeMessage>(&last->what);
  if (waiting == nullptr || !std::holds_alternative<AckOnly>(waiting->body)) return false;
  *waiting = message;
  return true;
}

std::vector<EngineInbox::Input> EngineInbox::take() {
  waiting_.clear();
  shares_.clear();
  return std::exchange(inputs_, {});
}

}  // namespace outrider
