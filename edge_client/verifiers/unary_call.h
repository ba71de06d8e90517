// A call that has one answer, where a stream is not needed.
//
// Thread rule: blocks; any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <stop_token>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

struct UnaryCall {
  const char* method;
  std::string token;  // as RemoteOptions::token
  Duration timeout;
};

// Errors: CANCELLED if it was asked to stop; else what the server or the link said.
Result<grpc::ByteBuffer> call_once(grpc::GenericStub& stub, const UnaryCall& call,
                                   const grpc::ByteBuffer& request, const std::stop_token& stop);

}  // namespace outrider
