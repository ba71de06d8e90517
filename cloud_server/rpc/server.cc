// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "cloud_server/rpc/shell_state.h"
#include "cloud_server/rpc/stream_reactor.h"
#include "cloud_server/rpc/unary_reactor.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/outrider/v1/outrider.grpc.pb.h"

namespace outrider {
namespace {

// Raw: the reactors parse, so that a malformed message gets an answer (byte_buffer.h).
class RawService final
    : public v1::Outrider::WithRawCallbackMethod_Generate<v1::Outrider::Service> {
 public:
  explicit RawService(ShellState& shell) : shell_(shell) {
    serve_unary(kMeasure, kMaxMeasuredBytes, measure_reply);
    serve_unary(kDescribe, kDescribeBytes,
                [this](const std::string& request) { return describe(request); });
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context) override {
    return new StreamReactor(*context, shell_);  // deletes itself in OnDone
  }

 private:
  enum : int { kMeasure = 1, kDescribe = 2 };  // in the order of the .proto
  static constexpr std::size_t kDescribeBytes = 4096;

  // gRPC calls a unary method only when its whole request has arrived; a stream of one message each
  // way is the same on the wire. The first call makes the method a stream, the second makes it raw.
  void serve_unary(int method, std::size_t request_bytes, const UnaryReactor::Answer& answer) {
    const auto handler = [&] {
      return new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
          [this, request_bytes, answer](grpc::CallbackServerContext* context) {
            return new UnaryReactor(*context, shell_, request_bytes, answer);  // deletes itself
          });
    };
    MarkMethodStreamed(method, handler());
    MarkMethodRawCallback(method, handler());
  }

  Result<std::string> describe(const std::string& request) const {
    OUTRIDER_RETURN_IF_ERROR(check_describe_request(request));
    if (shell_.description.empty()) {
      return unimplemented("this server has no tokenizer, and therefore no chat template");
    }
    return shell_.description;
  }

  ShellState& shell_;
};

// 0 stays 0, which means none.
int to_millis(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

void set_connection_limits(grpc::ServerBuilder& builder, const RpcServerOptions& options) {
  const auto limit = [&](const char* name, Duration value) {
    if (value > Duration{0}) builder.AddChannelArgument(name, to_millis(value));
  };
  limit(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.max_connection_age);
  limit(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.max_connection_idle);
  limit(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, options.handshake_timeout);
  if (options.max_connection_age > Duration{0}) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                               to_millis(options.max_connection_age_grace));
  }
}

void set_limits(grpc::ServerBuilder& builder, const RpcServerOptions& options) {
  grpc::ResourceQuota quota("outrider");
  quota.Resize(options.memory_bytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  // Messages are small and dense; without decompression there are no decompression bombs.
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
  set_connection_limits(builder, options);
}

// How often gRPC reads the copies in memory.
constexpr unsigned kReloadSeconds = 1;

// Plaintext without files. Otherwise TLS, whose files are read again when they change; open streams
// continue. OfferedTlsFiles ensures that the files fit each other.
std::shared_ptr<grpc::ServerCredentials> make_server_credentials(const TlsFiles& files) {
  if (!files.wanted()) return grpc::InsecureServerCredentials();
  ::setenv("GRPC_SSL_CIPHER_SUITES", kTls12Suites, 0);  // the environment has priority
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.cert, files.client_ca,
                                                       kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  if (files.client_ca.empty()) {
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

// Passes connections from the gate to gRPC.
ConnectionGate::Hand hand_to(std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc) {
  return [grpc = std::move(grpc)](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    grpc->HandleNewConnection(&parameters);
  };
}

}  // namespace

struct RpcServer::Parts {
  Parts(VerifyEngine& engine, FaultLog& faults, const RpcServerOptions& options)
      : address(options.listen), shell(engine, faults, options), service(shell) {}

  Address address;
  ShellState shell;
  RawService service;
  std::shared_ptr<const OfferedTlsFiles> tls;  // null: plaintext
  std::unique_ptr<ConnectionGate> gate;
  std::unique_ptr<grpc::Server> server;
};

Result<std::unique_ptr<RpcServer>> RpcServer::start(VerifyEngine& engine, FaultLog& faults,
                                                    RpcServerOptions options) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  set_limits(builder, options);
  auto parts = std::make_unique<Parts>(engine, faults, options);
  OUTRIDER_ASSIGN_OR_RETURN(
      parts->gate, ConnectionGate::listen(
                       {.listen = options.listen,
                        .max_connections = options.max_connections,
                        .max_connections_per_peer = options.max_connections_per_peer,
                        .tls = options.tls.wanted(),
                        .handshake_timeout = options.handshake_timeout,
                        .unauthenticated_grace = options.unauthenticated_grace,
                        .log = [&faults](const std::string& line) { faults.warn(line); },
                        .on_foreign = [&faults](const std::string& peer,
                                                const Status& why) { faults.refuse(peer, why); }}));
  if (options.tls.wanted()) {
    OUTRIDER_ASSIGN_OR_RETURN(
        parts->tls,
        OfferedTlsFiles::watch(options.tls, options.tls_interval,
                               [&faults](const std::string& line) { faults.warn(line); }));
  }
  parts->address.port = parts->gate->port();
  parts->shell.mark_authenticated = [gate = parts->gate.get()](const std::string& peer) {
    gate->mark_authenticated(peer);
  };
  using External = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          External::FROM_FD,
          make_server_credentials(parts->tls ? parts->tls->offered() : TlsFiles{}));
  builder.RegisterService(&parts->service);
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr) return internal_error("gRPC does not start; its log says why");
  parts->gate->open(hand_to(std::move(acceptor)));
  std::unique_ptr<RpcServer> server(new RpcServer(std::move(parts)));
  server->set_serving(true);
  return server;
}

RpcServer::RpcServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

RpcServer::~RpcServer() {
  shutdown(Duration{0});
  parts_->shell.calls.wait_for_none();  // alarms of ended calls may still fire
}

const Address& RpcServer::address() const {
  return parts_->address;
}

std::shared_ptr<const OfferedTlsFiles> RpcServer::tls() const {
  return parts_->tls;
}

void RpcServer::set_serving(bool serving) {
  grpc::HealthCheckServiceInterface* health = parts_->server->GetHealthCheckService();
  health->SetServingStatus(serving);
  health->SetServingStatus(kServiceName, serving);
}

void RpcServer::shutdown(Duration grace) {
  parts_->gate->close();
  parts_->server->Shutdown(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::microseconds>(grace));
}

RpcServerStats RpcServer::stats() const {
  return {parts_->shell.stalled.load(std::memory_order_relaxed), parts_->shell.calls.count(),
          parts_->gate->stats()};
}

}  // namespace outrider
