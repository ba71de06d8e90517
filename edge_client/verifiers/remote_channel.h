// gRPC's connections to a server: addresses, times, certificates, and what goes with every call.
//
//   ChannelSource channels(options);
//   std::shared_ptr<grpc::Channel> channel = channels.make();
//
// Thread rule: a ChannelSource from one thread; the functions from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {

class ChannelSource final {
 public:
  explicit ChannelSource(const RemoteOptions& options) : options_(options) {}

  // Connects when it is first used; each channel is a new connection. Its TLS files are read anew,
  // so that a renewed certificate serves the next connection; while they cannot be used, the texts
  // before them are, which the log says once. Where there never were any, the channel fails: it
  // never trusts others than the file names.
  std::shared_ptr<grpc::Channel> make();

 private:
  const RemoteOptions options_;
  std::optional<TlsTexts> texts_;  // the last that could be used
  std::string told_;               // the last fault that was logged
};

// How the server is named in errors: its address, and the proxy that the environment puts before
// it.
std::string name_of_server(const Address& server);

// Adds a header to a call. An empty value, and one that gRPC would end the process for, adds none.
void add_header(grpc::ClientContext& context, const char* name, const std::string& value);
// The key, as the server looks for it.
void add_key(grpc::ClientContext& context, const std::string& key);

// A call that has one answer, where a stream is not needed. It blocks.
struct UnaryCall {
  const char* method;
  std::string token;  // as RemoteOptions::token
  Duration timeout;
};

// Errors: CANCELLED if it was asked to stop; else what the server or the link said.
Result<grpc::ByteBuffer> call_once(grpc::GenericStub& stub, const UnaryCall& call,
                                   const grpc::ByteBuffer& request, const std::stop_token& stop);

}  // namespace outrider
