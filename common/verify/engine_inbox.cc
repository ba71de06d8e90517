// SPDX-License-Identifier: Apache-2.0
#include "common/verify/engine_inbox.h"

#include <algorithm>

namespace outrider {
namespace {

struct SizeOfBody {
  std::size_t operator()(const Open& open) const {
    return (open.prefix.size() + open.stop_ids.size()) * sizeof(TokenId) +
           open.tokenizer_hash.size() + open.expected_fingerprint.size() +
           open.expected_arithmetic_id.size() + open.replaced_session.size();
  }
  std::size_t operator()(const Grow& grow) const { return grow.nodes.size() * sizeof(GrowNode); }
  std::size_t operator()(const Policy&) const { return 0; }
  std::size_t operator()(const Cancel&) const { return 0; }
  std::size_t operator()(const Prefix& prefix) const { return prefix.ids.size() * sizeof(TokenId); }
  std::size_t operator()(const AckOnly&) const { return 0; }
};

}  // namespace

void EngineInbox::push_message(StreamId stream, EdgeMessage message) {
  Waiting& waiting = waiting_[stream];
  if (waiting.overflowed || supersede_acknowledgement(stream, message)) return;
  waiting.messages += 1;
  const std::size_t size = sizeof(Input) + std::visit(SizeOfBody{}, message.body);
  waiting.bytes += size;
  bytes_of_all_ += size;
  waiting.overflowed = waiting.messages > kMaxMessages || waiting.bytes > kMaxBytes ||
                       bytes_of_all_ > kMaxBytesOfAll;
  if (!waiting.overflowed) return push({stream, std::move(message)});
  bytes_of_all_ -= waiting.bytes;
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
  bytes_of_all_ = 0;
  return std::exchange(inputs_, {});
}

}  // namespace outrider
