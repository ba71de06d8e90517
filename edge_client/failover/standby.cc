// SPDX-License-Identifier: Apache-2.0
#include "edge_client/failover/standby.h"

#include <utility>

namespace outrider {

std::optional<StandBy> Standby::follow(std::span<const TokenId> text, const Open& like,
                                       const std::string& session) {
  const auto end = static_cast<Position>(text.size());
  // The next pass is assumed to bring as much text as the last one did; the first one read the
  // prompt.
  if (std::exchange(has_ended_, false) && passes_ > 1) behind_ = 2 * (end - covered_);
  // Half of the lag, as the text goes on while it is read.
  if (lag_ == 0 || broken_ || busy_ || end - covered_ < (lag_ + 1) / 2) return std::nullopt;
  busy_ = true;
  ++passes_;
  covered_ = end;
  Open open = like;
  open.prefix.assign(text.begin(), text.end());
  open.prefix_length = 0;
  open.prefix_hash.clear();
  open.end_position = end + 1;
  open.policy = {};
  open.prompt_logprobs = false;
  open.wants_digests = false;
  open.expected_fingerprint.clear();
  open.expected_arithmetic_id.clear();
  open.replaced_session = session;
  return StandBy{++epoch_, {.acked_position = end, .acked_reports = 0, .body = std::move(open)}};
}

std::optional<Status> Standby::on(const FromVerifier& event) {
  const auto* ended = std::get_if<StreamEnded>(&event.event);
  if (event.epoch != epoch_ || ended == nullptr || !busy_) return std::nullopt;
  busy_ = false;
  has_ended_ = true;
  if (ended->status.ok()) return std::nullopt;
  broken_ = true;
  return ended->status;
}

std::optional<std::string> Standby::too_far_behind() {
  if (behind_ <= lag_ || std::exchange(is_told_, true)) return std::nullopt;
  return "this device reads more slowly than the server writes, so it is up to " +
         std::to_string(behind_) + " tokens behind, more than --standby-lag " +
         std::to_string(lag_);
}

}  // namespace outrider
