// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/caller.h"

#include <optional>
#include <string_view>

#include "common/base/request_headers.h"

namespace outrider {
namespace {

std::optional<std::string> certificate_name(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return std::nullopt;
  const auto names = peer->FindPropertyValues("x509_common_name");
  return names.size() == 1 ? std::string(names[0].data(), names[0].size()) : "";
}

std::string_view header_of(const grpc::ServerContextBase& context, const char* name) {
  const auto& metadata = context.client_metadata();
  const auto at = metadata.find(name);
  if (at == metadata.end()) return {};
  return {at->second.data(), at->second.size()};
}

std::string_view token_of(const grpc::ServerContextBase& context) {
  const std::string_view value = header_of(context, "authorization");
  const std::string_view key = bearer_key_in(value);
  return key.empty() ? value : key;
}

}  // namespace

std::string host_of(const std::string& peer) {
  const std::size_t begin = peer.find(':') + 1;
  const std::size_t end = peer.rfind(':');
  if (begin > end || end == std::string::npos) return peer;
  std::string host = peer.substr(begin, end - begin);
  if (host.starts_with("%5B")) host.erase(0, 3);
  return host.substr(0, host.find('%'));
}

std::string request_id_of(const grpc::ServerContextBase& context) {
  const std::string_view id = header_of(context, kRequestIdHeader);
  return is_request_id(id) ? std::string(id) : std::string();
}

TraceHeaders trace_headers_of(const grpc::ServerContextBase& context) {
  return {.parent = std::string(header_of(context, kTraceparentHeader)),
          .state = std::string(header_of(context, kTracestateHeader))};
}

Result<Caller> identify(const grpc::ServerContextBase& context, Authenticator* authenticator) {
  return identify({.key = token_of(context),
                   .host = host_of(context.peer()),
                   .certificate_name = certificate_name(context)},
                  authenticator, Front::kGrpc);
}

}  // namespace outrider
