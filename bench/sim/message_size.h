// About how many bytes a message is on the wire (DESIGN section 4: 32 nodes in 256 bytes, an exit
// report in 48), for links with a limit of bandwidth. Real sizes are the codec's, which needs gRPC.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "common/protocol/messages.h"
#include "common/protocol/verifier.h"

namespace outrider {

inline constexpr std::size_t kFrameBytes = 24;  // of a message without content, headers included
inline constexpr std::size_t kNodeBytes = 8;
inline constexpr std::size_t kTokenBytes = 3;
inline constexpr std::size_t kNameBytes = 64;  // a hash, a session's id
inline constexpr std::size_t kExitReportBytes = 48;

inline std::size_t message_size(const EdgeMessage& message) {
  if (const auto* grow = std::get_if<Grow>(&message.body)) {
    return kFrameBytes + grow->nodes.size() * kNodeBytes;
  }
  if (const auto* open = std::get_if<Open>(&message.body)) {
    return kFrameBytes + 4 * kNameBytes + open->prefix.size() * kTokenBytes;
  }
  if (const auto* prefix = std::get_if<Prefix>(&message.body)) {
    return kFrameBytes + prefix->ids.size() * kTokenBytes;
  }
  return kFrameBytes;
}

inline std::size_t message_size(const VerifierEvent& event) {
  const auto* message = std::get_if<ServerMessage>(&event);
  if (message == nullptr) return kFrameBytes;
  if (std::holds_alternative<ExitReport>(*message)) return kExitReportBytes;
  if (std::holds_alternative<Opened>(*message)) return kFrameBytes + 5 * kNameBytes;
  const auto* verdict = std::get_if<Verdict>(message);
  return kFrameBytes + (verdict == nullptr ? 0 : verdict->tokens.size() * kTokenBytes);
}

}  // namespace outrider
