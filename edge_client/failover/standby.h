// Keeps the KV of this device's target near the committed text while the server decides: a stream
// beside the server's that reads the text so far, again and again, each on top of the last one's
// KV.
//
// Thread rule: pure; one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/types.h"
#include "common/decoding/protocol/verifier.h"
#include "edge_client/session/events.h"

namespace outrider {

// Its streams' epochs: beyond all of a session's own.
inline constexpr std::uint32_t kFirstStandbyEpoch = 1U << 31;

class Standby final {
 public:
  // lag: at most so many tokens behind, as long as no more than half of them come while this device
  // reads; where more come, it reads without a pause. 0: no standby.
  explicit Standby(Position lag) : lag_(lag) {}

  static bool owns(std::uint32_t epoch) { return epoch >= kFirstStandbyEpoch; }

  // Begins a stream if the text has grown enough. like: the last Open of the answer's own stream.
  // session: the last one on this device, whose KV it takes over.
  std::optional<StandBy> follow(std::span<const TokenId> text, const Open& like,
                                const std::string& session);
  // Returns why there is no standby any more, once.
  std::optional<Status> on(const FromVerifier& event);
  // By how many tokens this device is behind, in words, where it reads more slowly than the text
  // grows; reported once, and not for the prompt.
  std::optional<std::string> too_far_behind();
  // The answer's own stream goes to this device.
  void stop() { busy_ = has_ended_ = false; }

 private:
  const Position lag_;
  std::uint32_t epoch_ = kFirstStandbyEpoch - 1;
  Position covered_ = 0;
  Position behind_ = 0;  // at most, by the last pass
  int passes_ = 0;       // that have begun
  bool busy_ = false;
  bool has_ended_ = false;  // a pass has, since follow()
  bool is_told_ = false;
  bool broken_ = false;
};

}  // namespace outrider
