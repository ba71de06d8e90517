// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/link_speed.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <chrono>

#include "edge_client/verifiers/remote_channel.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/grpc_status.h"

namespace outrider {
namespace {

constexpr std::size_t kFirstBytes = 16
                                    << 10;  // then four times as many, up to what a call may carry
constexpr int kTries = 4;                   // TCP's window grows from one to the next
constexpr std::chrono::seconds kCallTimeout{30};

class Measurement final {
 public:
  Measurement(const RemoteOptions& options, std::stop_token stop)
      : options_(options), stop_(std::move(stop)), stub_(make_channel(options)) {}

  Result<LinkSpeed> run() {
    OUTRIDER_RETURN_IF_ERROR(call(0, 0).status());  // connects
    OUTRIDER_ASSIGN_OR_RETURN(round_trip_, fastest(0, 0));
    LinkSpeed speed;
    OUTRIDER_ASSIGN_OR_RETURN(speed.up, rate(true));
    OUTRIDER_ASSIGN_OR_RETURN(speed.down, rate(false));
    return speed;
  }

 private:
  // The longest of the transfers that a user gladly waits for tells most.
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

  // Of kTries; one that lasts a second is not repeated.
  Result<Duration> fastest(std::size_t up, std::size_t down) const {
    OUTRIDER_ASSIGN_OR_RETURN(Duration best, call(up, down));
    for (int i = 1; i < kTries && best < std::chrono::seconds(1); ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(const Duration took, call(up, down));
      best = std::min(best, took);
    }
    return best;
  }

  Result<Duration> call(std::size_t up, std::size_t down) const {
    if (stop_.stop_requested()) return cancelled("interrupted");
    grpc::ClientContext context;
    if (!options_.token.empty()) context.AddMetadata("authorization", "Bearer " + options_.token);
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    const grpc::ByteBuffer request =
        to_buffer(serialize_measure_request(static_cast<std::uint32_t>(down), up));
    grpc::ByteBuffer reply;
    grpc::Status status;
    grpc::CompletionQueue queue;  // this thread's own: nothing crosses to another
    const auto pending = stub_.PrepareUnaryCall(&context, kMeasureMethod, request, &queue);
    const TimePoint began = std::chrono::steady_clock::now();
    pending->StartCall();
    pending->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok)) return internal_error("gRPC ended its queue before the call");
    const Duration took = std::chrono::steady_clock::now() - began;
    if (!status.ok()) return from_grpc(status);
    return took;
  }

  const RemoteOptions& options_;
  const std::stop_token stop_;
  mutable grpc::GenericStub stub_;
  Duration round_trip_{0};
};

}  // namespace

Result<LinkSpeed> measure_link_speed(const RemoteOptions& options, const std::stop_token& stop) {
  return Measurement(options, stop).run();
}

}  // namespace outrider
