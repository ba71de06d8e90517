// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/stream_path.h"

namespace outrider {
namespace {

constexpr std::size_t kAnyPiece = std::size_t{64} << 10;
constexpr int kMaxRetransmissions = 15;  // Linux's tcp_retries2; then TCP gives up

bool packets_count(const PathSettings& settings) {
  return settings.has_rate() || mean_loss(settings.loss) > 0 || !settings.loss.windows.empty();
}

}  // namespace

std::size_t StreamPath::largest_piece() const {
  return packets_count(path_.settings()) ? kMaxSegment : kAnyPiece;
}

std::optional<Duration> StreamPath::send(std::size_t bytes, Duration now) {
  const Fate fate = path_.send(bytes + kHeaders, now);
  Duration late{0};
  if (fate.kind == Fate::Kind::kLost) {
    int retransmissions = 1;
    for (late = timeout_; path_.loses_again(now + late);
         late += timeout_ * (1 << retransmissions++)) {
      if (retransmissions == kMaxRetransmissions) return std::nullopt;
    }
  } else if (!fate.arrives()) {
    return std::nullopt;
  }
  last_due_ = std::max(last_due_, fate.due + late);
  return last_due_;
}

}  // namespace outrider
