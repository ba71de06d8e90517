// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/unary_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include "edge_client/verifiers/remote_channel.h"
#include "proto/grpc_status.h"

namespace outrider {

Result<grpc::ByteBuffer> call_once(grpc::GenericStub& stub, const UnaryCall& call,
                                   const grpc::ByteBuffer& request, const std::stop_token& stop) {
  if (stop.stop_requested()) return cancelled("interrupted");
  grpc::ClientContext context;
  add_key(context, call.token);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::microseconds>(call.timeout));
  grpc::ByteBuffer reply;
  grpc::Status status;
  grpc::CompletionQueue queue;  // this thread's own: nothing crosses to another
  const auto pending = stub.PrepareUnaryCall(&context, call.method, request, &queue);
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  pending->StartCall();
  pending->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  if (!queue.Next(&tag, &ok)) return internal_error("gRPC ended its queue before the call");
  if (stop.stop_requested()) return cancelled("interrupted");
  if (!status.ok()) return ended_call(status);
  return reply;
}

}  // namespace outrider
