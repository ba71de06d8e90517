// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/caller.h"

#include <string_view>
#include <utility>

#include "cloud_server/admission/token_file.h"
#include "common/base/request_headers.h"

namespace outrider {
namespace {

// Empty without a certificate. A common name that is no tenant's name would have no quota.
Result<std::string> certificate_name(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return std::string();
  const auto names = peer->FindPropertyValues("x509_common_name");
  std::string name = names.size() == 1 ? std::string(names[0].data(), names[0].size()) : "";
  if (is_tenant_name(name)) return name;
  return permission_denied(
      "the certificate's common name must be a tenant's: 1 to 64 letters, digits, dashes, dots or "
      "underscores");
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

Result<Caller> identify(const grpc::ServerContextBase& context, Authenticator* authenticator) {
  Caller caller;
  OUTRIDER_ASSIGN_OR_RETURN(caller.tenant, certificate_name(context));
  if (authenticator == nullptr) return caller;
  const std::string_view token = token_of(context);
  if (token.empty() && !caller.tenant.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(caller.key,
                              authenticator->find_certificate(caller.tenant, Front::kGrpc));
    return caller;
  }
  OUTRIDER_ASSIGN_OR_RETURN(caller.key,
                            authenticator->find(token, host_of(context.peer()), Front::kGrpc));
  if (!caller.tenant.empty() && caller.tenant != caller.key->tenant) {
    return permission_denied("the key and the certificate belong to different tenants");
  }
  caller.tenant = caller.key->tenant;
  return caller;
}

}  // namespace outrider
