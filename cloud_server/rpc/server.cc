// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cloud_server/rpc/caller.h"
#include "cloud_server/rpc/credentials.h"
#include "cloud_server/rpc/shell_state.h"
#include "cloud_server/rpc/stream_reactor.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/grpc_status.h"
#include "proto/outrider/v1/outrider.grpc.pb.h"

namespace outrider {
namespace {

// Raw: the reactor parses, so that a malformed message gets an answer (byte_buffer.h).
class RawService final : public v1::Outrider::WithRawCallbackMethod_Generate<
                             v1::Outrider::WithRawCallbackMethod_Measure<v1::Outrider::Service>> {
 public:
  explicit RawService(ShellState& shell) : shell_(shell) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context) override {
    return new StreamReactor(*context, shell_);  // deletes itself in OnDone
  }
  grpc::ServerUnaryReactor* Measure(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* reply) override {
    const Status status = measure(*context, *request, *reply);
    if (!status.ok()) shell_.report_peer_error(context->peer(), status);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(status.ok() ? grpc::Status::OK : to_grpc(status));
    return reactor;
  }

 private:
  // Callers need what a stream needs: a key where there are keys, and room among the calls of their
  // address.
  Status measure(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& request,
                 grpc::ByteBuffer& reply) {
    const std::string host = host_of(context.peer());
    OUTRIDER_RETURN_IF_ERROR(shell_.bounds.enter(host));
    shell_.bounds.leave(host);  // it is over at once
    OUTRIDER_RETURN_IF_ERROR(identify(context, shell_.tenants).status());
    OUTRIDER_ASSIGN_OR_RETURN(const std::string bytes, measure_reply(to_bytes(request)));
    reply = to_buffer(bytes);
    return {};
  }

  ShellState& shell_;
};

// gRPC does not say why it could not listen; asking the system once more does.
Status explain_listen_failure(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const std::string where = "cannot listen on " + address.to_string() + ": ";
  if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found)) {
    return unavailable(where + gai_strerror(error) + "; check --host");
  }
  std::string reason = "unknown reason";
  const int fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0) reason = std::strerror(errno);
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return unavailable(where + reason + "; choose another --host or --port (0 takes a free port)");
}

void set_limits(grpc::ServerBuilder& builder, const RpcServerOptions& options) {
  grpc::ResourceQuota quota("outrider");
  quota.Resize(options.memory_bytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  // Messages are small and dense; without decompression there is nothing to blow up.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepaliveTime.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             static_cast<int>(kKeepaliveTimeout.count()));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             static_cast<int>(kMinPingInterval.count()));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Two servers on one port would share its connections without a word.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

}  // namespace

struct RpcServer::Parts {
  Parts(VerifyEngine& engine, const RpcServerOptions& options)
      : address(options.listen), shell(engine, options), service(shell) {}

  Address address;
  ShellState shell;
  RawService service;
  std::unique_ptr<grpc::Server> server;
};

Result<std::unique_ptr<RpcServer>> RpcServer::start(VerifyEngine& engine,
                                                    RpcServerOptions options) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  set_limits(builder, options);
  auto parts = std::make_unique<Parts>(engine, options);
  int port = 0;
  builder.AddListeningPort(parts->address.to_string(),
                           make_server_credentials(options.tls, options.tls_reload_seconds), &port);
  builder.RegisterService(&parts->service);
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr || port == 0) return explain_listen_failure(parts->address);
  parts->address.port = static_cast<std::uint16_t>(port);
  std::unique_ptr<RpcServer> server(new RpcServer(std::move(parts)));
  server->set_serving(true);
  return server;
}

RpcServer::RpcServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

RpcServer::~RpcServer() {
  shutdown(Duration{0});
  parts_->shell.calls.wait_for_none();  // alarms of ended calls may still be about to ring
}

const Address& RpcServer::address() const {
  return parts_->address;
}

void RpcServer::set_serving(bool serving) {
  grpc::HealthCheckServiceInterface* health = parts_->server->GetHealthCheckService();
  health->SetServingStatus(serving);
  health->SetServingStatus(kServiceName, serving);
}

void RpcServer::shutdown(Duration grace) {
  parts_->server->Shutdown(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::microseconds>(grace));
}

RpcServerStats RpcServer::stats() const {
  return {parts_->shell.refused.load(std::memory_order_relaxed),
          parts_->shell.stalled.load(std::memory_order_relaxed),
          parts_->shell.failed.load(std::memory_order_relaxed), parts_->shell.calls.count()};
}

}  // namespace outrider
