// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/delivery.h"

#include <optional>

#include "emulation/path/stream_path.h"

namespace outrider {
namespace {

// The approximate sizes of the protocol's messages.
constexpr std::size_t kFrameBytes = 24;
constexpr std::size_t kOpenBytes = 280;
constexpr std::size_t kTokenBytes = 3;

}  // namespace

Status deliver(const LinkProfile& link, int connect_trips, Duration offset, std::uint64_t seed,
               AnswerRecord& record) {
  LinkWire wire(link, offset, seed);
  std::optional<LinkWireFlow> up, down;
  wire.open(up, down);
  const auto lost = [&] { return unavailable("nothing arrives over " + link.name); };
  LinkTraffic traffic;
  traffic.framed_up = kOpenBytes + record.stats.prompt_tokens * kTokenBytes;
  const std::optional<Duration> connected =
      connected_at(connect_trips, wire.profile_time(TimePoint{}),
                   [&](bool is_up, Duration at) { return (is_up ? up : down)->send(0, at); });
  if (!connected) return lost();
  const std::optional<Duration> asked = up->send(traffic.framed_up, *connected);
  if (!asked) return lost();
  const TimePoint arrived = wire.simulation_time(*asked);
  std::vector<Duration> chunk_at;
  for (std::size_t i = 0; i < record.stats.chunk_at.size(); ++i) {
    const std::uint64_t tokens =
        i < record.stats.chunk_tokens.size() ? record.stats.chunk_tokens[i] : 1;
    const std::size_t bytes = kFrameBytes + tokens * kTokenBytes;
    traffic.framed_down += bytes;
    const auto due = down->send(bytes, wire.profile_time(arrived + record.stats.chunk_at[i]));
    if (!due) return lost();
    chunk_at.push_back(wire.simulation_time(*due).time_since_epoch());
  }
  traffic.payload_up = traffic.framed_up;
  traffic.payload_down = traffic.framed_down;
  if (!chunk_at.empty() && record.stats.ttft_ms && record.stats.decode_ms) {
    const double first = to_ms(chunk_at.front() - record.stats.chunk_at.front());
    const double last = to_ms(chunk_at.back() - record.stats.chunk_at.back());
    *record.stats.ttft_ms += first;
    *record.stats.decode_ms += last - first;
    const double later = static_cast<double>(record.stats.completion_tokens) - 1;
    if (record.stats.tpot_ms && later > 0) record.stats.tpot_ms = *record.stats.decode_ms / later;
    if (record.stats.tokens_per_s && *record.stats.decode_ms > 0) {
      record.stats.tokens_per_s = later / *record.stats.decode_ms * 1e3;
    }
  }
  record.stats.chunk_at = std::move(chunk_at);
  record.traffic = TrafficRecord{.bytes = traffic};
  record.stats.rtt_ms = to_ms(link.up.delay + link.down.delay);
  return {};
}

}  // namespace outrider
