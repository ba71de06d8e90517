// A call with one message each way: Measure and Describe.
//
// To gRPC it is a stream, so that the server knows the call from its headers on: it is bounded, and
// has a deadline, until the peer has read the reply. It needs what a Generate stream needs: a key
// where keys are required, and room among the calls of its address.
//
// Thread rule: gRPC's reactions and the alarm run concurrently. It deletes itself when both have
// released it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>

#include "cloud_server/rpc/call_canceller.h"
#include "cloud_server/rpc/caller.h"
#include "cloud_server/rpc/shell_state.h"
#include "common/base/mutex.h"

namespace outrider {

class UnaryReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Computes the reply's bytes from the request's. On gRPC's threads; must return soon.
  using Answer = std::function<Result<std::string>(const std::string& request)>;

  // request_bytes: the size limit of a request. context and shell outlive the call.
  UnaryReactor(grpc::CallbackServerContext& context, ShellState& shell, std::size_t request_bytes,
               Answer answer);

 private:
  void OnReadDone(bool ok) override;
  void OnDone() override;

  Status enter(std::size_t request_bytes);
  // Counts so many bytes for the call, instead of the earlier amount.
  Status hold(std::size_t bytes);
  Status reply();
  void refuse(const Status& status);
  void release();

  grpc::CallbackServerContext& context_;
  ShellState& shell_;
  const std::string peer_;
  const std::string network_;
  const Result<Caller> caller_;
  const Answer answer_;
  grpc::Alarm deadline_;
  std::atomic<int> holders_{2};  // gRPC until OnDone, the alarm until its callback
  grpc::ByteBuffer buffer_;      // of the request, then of the reply
  bool counted_ = false;         // in the bounds of calls
  std::size_t held_ = 0;         // in the bounds of bytes

  Mutex mu_;  // held while the last operation starts: OnDone comes after it
  CallCanceller canceller_;
};

}  // namespace outrider
