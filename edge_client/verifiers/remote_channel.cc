// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/remote_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <grpcpp/completion_queue.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "common/serving/credentials/certificates.h"
#include "common/serving/credentials/private_file.h"
#include "common/serving/telemetry/log.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/grpc_status.h"

namespace outrider {
namespace {

constexpr const char* kSystemRoots = "/etc/ssl/certs/ca-certificates.crt";

int to_millis(Duration duration) {
  return static_cast<int>(to_ms(duration));
}

Result<std::string> read_roots(const std::string& path) {
  if (path != "system") return read_authorities(path);
  Result<std::string> roots = read_authorities(kSystemRoots);
  if (roots.ok()) return roots;
  return Status(roots.status().code(), "--tls-ca system: " + roots.status().message() +
                                           ". Remedy: install the package ca-certificates");
}

// The variables that gRPC 1.51 reads, in its order.
constexpr std::array kProxyVariables = {"grpc_proxy", "https_proxy", "http_proxy"};
constexpr std::array kNoProxyVariables = {"no_grpc_proxy", "no_proxy"};

// The first of the variables that says something.
template <typename Names>
std::pair<const char*, std::string> first_set(const Names& names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {"", ""};
}

// Whether an entry of no_proxy is the end of the host's name.
bool goes_without_proxy(const std::string& host) {
  std::istringstream entries(first_set(kNoProxyVariables).second);
  for (std::string entry; std::getline(entries, entry, ',');) {
    if (!entry.empty() && host.ends_with(entry)) return true;
  }
  return false;
}

}  // namespace

std::string name_of_server(const Address& server) {
  const auto [variable, proxy] = first_set(kProxyVariables);
  if (proxy.empty() || is_loopback(server.host) || goes_without_proxy(server.host)) {
    return server.to_string();
  }
  const std::size_t scheme = proxy.find("://");
  std::size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  if (const std::size_t user = proxy.rfind('@'); user != std::string::npos) begin = user + 1;
  return server.to_string() + " (through the proxy " + proxy.substr(begin) + " of " + variable +
         "; no_proxy=" + server.host + " goes without it)";
}

Result<TlsTexts> read_tls_texts(const RemoteOptions& options) {
  TlsTexts texts;
  if (options.tls_ca.empty()) return texts;
  Result<std::string> roots = read_roots(options.tls_ca);
  if (!roots.ok()) return roots.status().with_context("--tls-ca");
  texts.authorities = *std::move(roots);
  if (options.tls_cert.empty()) return texts;
  Result<KeyPair> pair = read_key_pair(options.tls_cert, options.tls_key);
  if (!pair.ok()) return pair.status().with_context("--tls-cert and --tls-key");
  texts.certificates = std::move(pair->certificates);
  texts.key = std::move(pair->key);
  return texts;
}

std::shared_ptr<grpc::Channel> ChannelSource::make() {
  Result<TlsTexts> texts = read_tls_texts(options_);
  const std::string fault = texts.ok() ? "" : texts.status().message();
  if (texts.ok()) {
    texts_ = *std::move(texts);
  } else if (fault != told_) {
    log(LogLevel::kWarning,
        texts_ ? "TLS goes on with the files as they were" : "TLS: no connection can be made",
        {{"reason", fault}});
  }
  told_ = fault;
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // none: every call fails
  if (options_.tls_ca.empty()) {
    credentials = grpc::InsecureChannelCredentials();
  } else if (texts_) {
    credentials = grpc::SslCredentials({.pem_root_certs = texts_->authorities,
                                        .pem_private_key = texts_->key,
                                        .pem_cert_chain = texts_->certificates});
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepaliveTime.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepaliveTimeout.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes));
  arguments.SetInt(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes));
  // gRPC's name for the time one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, to_millis(options_.connect_timeout));
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, to_millis(options_.connect_timeout));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a new channel is a new connection
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // a stream is resumed by its session
  if (is_loopback(options_.server.host)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(options_.server.to_string(), credentials, arguments);
}

void add_header(grpc::ClientContext& context, const char* name, const std::string& value) {
  if (!value.empty() && is_header_value(value)) context.AddMetadata(name, value);
}

void add_key(grpc::ClientContext& context, const std::string& key) {
  if (!key.empty()) add_header(context, "authorization", "Bearer " + key);
}

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
