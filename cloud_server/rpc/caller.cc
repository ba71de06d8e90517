// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/caller.h"

#include <string_view>
#include <utility>

#include "common/protocol/request_id.h"

namespace outrider {
namespace {

constexpr std::string_view kBearer = "Bearer ";

std::string certificate_name(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return {};
  const auto names = peer->FindPropertyValues("x509_common_name");
  return names.empty() ? std::string() : std::string(names[0].data(), names[0].size());
}

std::string_view header_of(const grpc::ServerContextBase& context, const char* name) {
  const auto& metadata = context.client_metadata();
  const auto at = metadata.find(name);
  if (at == metadata.end()) return {};
  return {at->second.data(), at->second.size()};
}

std::string_view token_of(const grpc::ServerContextBase& context) {
  const std::string_view value = header_of(context, "authorization");
  return value.substr(0, kBearer.size()) == kBearer ? value.substr(kBearer.size()) : value;
}

}  // namespace

std::string host_of(const std::string& peer) {
  return peer.substr(0, peer.rfind(':'));
}

std::string request_id_of(const grpc::ServerContextBase& context) {
  const std::string_view id = header_of(context, kRequestIdHeader);
  return is_request_id(id) ? std::string(id) : std::string();
}

Result<Caller> identify(const grpc::ServerContextBase& context, const Tenants* tenants) {
  Caller caller;
  caller.tenant = certificate_name(context);
  if (tenants == nullptr) return caller;
  const std::string_view token = token_of(context);
  if (token.empty() && !caller.tenant.empty()) return caller;
  OUTRIDER_ASSIGN_OR_RETURN(caller.key, tenants->find(token));
  if (!caller.tenant.empty() && caller.tenant != caller.key->tenant) {
    return permission_denied("the key is another tenant's than the certificate");
  }
  caller.tenant = caller.key->tenant;
  return caller;
}

}  // namespace outrider
