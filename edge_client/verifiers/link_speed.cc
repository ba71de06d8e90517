// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/link_speed.h"

#include <algorithm>
#include <chrono>

#include "edge_client/verifiers/remote_channel.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"

namespace outrider {
namespace {

constexpr std::size_t kFirstBytes = 16
                                    << 10;  // then four times as many, up to what a call may carry
constexpr int kTries = 4;                   // TCP's window grows from one to the next
constexpr std::chrono::seconds kCallTimeout{30};

class Measurement final {
 public:
  Measurement(const RemoteOptions& options, std::stop_token stop)
      : options_(options), stop_(std::move(stop)), stub_(ChannelSource(options).make()) {}

  Result<LinkSpeed> run() {
    OUTRIDER_RETURN_IF_ERROR(call(0, 0).status());  // connects
    OUTRIDER_ASSIGN_OR_RETURN(round_trip_, fastest(0, 0));
    LinkSpeed speed;
    OUTRIDER_ASSIGN_OR_RETURN(speed.up, rate(true));
    OUTRIDER_ASSIGN_OR_RETURN(speed.down, rate(false));
    return speed;
  }

 private:
  // The longest transfer that a user accepts to wait for measures best.
  Result<Rate> rate(bool up) const {
    std::size_t bytes = kFirstBytes;
    while (true) {
      OUTRIDER_ASSIGN_OR_RETURN(const Duration took, fastest(up ? bytes : 0, up ? 0 : bytes));
      const Duration moving = std::max(took - round_trip_, Duration{1000});
      if (bytes == kMaxMeasuredBytes || moving > 4 * round_trip_) {
        return Rate{.bytes_per_second = static_cast<double>(bytes) / (to_ms(moving) / 1e3),
                    .least = moving < round_trip_};
      }
      bytes = std::min(4 * bytes, kMaxMeasuredBytes);
    }
  }

  // The fastest of kTries; one that lasts a second is not repeated.
  Result<Duration> fastest(std::size_t up, std::size_t down) const {
    OUTRIDER_ASSIGN_OR_RETURN(Duration best, call(up, down));
    for (int i = 1; i < kTries && best < std::chrono::seconds(1); ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(const Duration took, call(up, down));
      best = std::min(best, took);
    }
    return best;
  }

  Result<Duration> call(std::size_t up, std::size_t down) const {
    const grpc::ByteBuffer request =
        to_buffer(serialize_measure_request(static_cast<std::uint32_t>(down), up));
    const UnaryCall call{kMeasureMethod, options_.token, kCallTimeout};
    const TimePoint began = std::chrono::steady_clock::now();
    OUTRIDER_RETURN_IF_ERROR(call_once(stub_, call, request, stop_).status());
    return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began);
  }

  const RemoteOptions& options_;
  const std::stop_token stop_;
  mutable grpc::GenericStub stub_;
  Duration round_trip_{0};
};

}  // namespace

Result<LinkSpeed> measure_link_speed(const RemoteOptions& options, const std::stop_token& stop) {
  OUTRIDER_RETURN_IF_ERROR(read_tls_texts(options).status());
  return Measurement(options, stop).run();
}

}  // namespace outrider
