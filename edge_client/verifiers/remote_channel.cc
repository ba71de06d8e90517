// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/remote_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include "common/base/files.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"

namespace outrider {
namespace {

constexpr const char* kSystemRoots = "/etc/ssl/certs/ca-certificates.crt";

int to_millis(Duration duration) {
  return static_cast<int>(to_ms(duration));
}

Result<std::string> read_pem(const std::string& path) {
  constexpr std::int64_t kMaxBytes = std::int64_t{4} << 20;
  if (path.empty()) return std::string();
  return read_file(path == "system" ? kSystemRoots : path, kMaxBytes);
}

// Read for each channel, so that a renewed certificate serves the next connection. A file that is
// gone by then leaves its part empty, and the server refuses.
std::shared_ptr<grpc::ChannelCredentials> credentials_of(const RemoteOptions& options) {
  if (options.tls_ca.empty()) return grpc::InsecureChannelCredentials();
  const auto pem = [](const std::string& path) {
    Result<std::string> text = read_pem(path);
    return text.ok() ? *std::move(text) : std::string();
  };
  return grpc::SslCredentials({.pem_root_certs = pem(options.tls_ca),
                               .pem_private_key = pem(options.tls_key),
                               .pem_cert_chain = pem(options.tls_cert)});
}

}  // namespace

std::shared_ptr<grpc::Channel> make_channel(const RemoteOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepaliveTime.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepaliveTimeout.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes));
  arguments.SetInt(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes));
  // gRPC's name for the time one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, to_millis(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, to_millis(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a new channel is a new connection
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // a stream is resumed by its session
  if (is_loopback(options.server.host)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(options.server.to_string(), credentials_of(options), arguments);
}

Status check_channel_files(const RemoteOptions& options) {
  for (const std::string& path : {options.tls_ca, options.tls_cert, options.tls_key}) {
    if (Result<std::string> pem = read_pem(path); !pem.ok()) return pem.status();
  }
  return {};
}

}  // namespace outrider
