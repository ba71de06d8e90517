// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/protocol/open_assembly.h"

#include <algorithm>
#include <string>
#include <utility>

namespace outrider {

OpenAssembly::OpenAssembly(EdgeMessage first, TimePoint now)
    : last_piece_(now), bytes_(size_in_memory(first)) {
  messages_.push_back(std::move(first));
  length_ = std::max(open().prefix.size(), static_cast<std::size_t>(open().prefix_length));
}

Status OpenAssembly::take(const EdgeMessage& message, TimePoint now) {
  if (const auto* piece = std::get_if<Prefix>(&message.body)) {
    OUTRIDER_RETURN_IF_ERROR(add(*piece));
    last_piece_ = now;
    return {};
  }
  if (messages_.size() > kMaxWaiting) {
    return resource_exhausted("more than " + std::to_string(kMaxWaiting) +
                              " messages came before the session was opened");
  }
  messages_.push_back(message);
  bytes_ += size_in_memory(message);
  return {};
}

Status OpenAssembly::add(const Prefix& piece) {
  auto& prefix = std::get<Open>(messages_.front().body).prefix;
  const std::size_t missing = length_ - prefix.size();
  if (piece.ids.size() > missing) {
    return invalid_argument("Prefix.ids: " + std::to_string(piece.ids.size()) +
                            " ids; expected at most the " + std::to_string(missing) +
                            " that Open.prefix_length still lacks");
  }
  if (piece.ids.size() < kPrefixPiece && piece.ids.size() < missing) {
    return invalid_argument("Prefix.ids: " + std::to_string(piece.ids.size()) +
                            " ids; expected at least " + std::to_string(kPrefixPiece) +
                            " in each piece except the last");
  }
  prefix.insert(prefix.end(), piece.ids.begin(), piece.ids.end());
  bytes_ += piece.ids.size() * sizeof(TokenId);
  return {};
}

std::vector<EdgeMessage> OpenAssembly::release() {
  std::get<Open>(messages_.front().body).prefix_length = 0;
  return std::exchange(messages_, {});
}

}  // namespace outrider
