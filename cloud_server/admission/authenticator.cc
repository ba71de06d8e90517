// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/admission/authenticator.h"

#include "cloud_server/admission/token_file.h"
#include "common/base/address.h"

namespace outrider {
namespace {

// A key that reads metrics must not decode: it is stored in a monitoring program, and has no quota.
Status check_right(const Tenants& tenants, const TenantKey& key, Front front) {
  if (front == Front::kMetrics || !tenants.limits_of(key.tenant).read_metrics) return {};
  return permission_denied("this key is for reading metrics (read-metrics) only");
}

// Empty without a certificate.
Result<std::string> tenant_of_certificate(const std::optional<std::string>& name) {
  if (!name || is_tenant_name(*name)) return name.value_or("");
  return permission_denied(
      "the certificate's common name must be a tenant's: 1 to 64 letters, digits, dashes, dots or "
      "underscores");
}

}  // namespace

Result<Caller> identify(const Credentials& shown, Authenticator* authenticator, Front front) {
  Caller caller;
  OUTRIDER_ASSIGN_OR_RETURN(caller.tenant, tenant_of_certificate(shown.certificate_name));
  if (authenticator == nullptr) return caller;
  if (shown.key.empty() && !caller.tenant.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(caller.key, authenticator->find_certificate(caller.tenant, front));
    return caller;
  }
  OUTRIDER_ASSIGN_OR_RETURN(caller.key, authenticator->find(shown.key, shown.host, front));
  if (!caller.tenant.empty() && caller.tenant != caller.key->tenant) {
    return permission_denied("the key and the certificate belong to different tenants");
  }
  caller.tenant = caller.key->tenant;
  return caller;
}

Result<std::shared_ptr<const TenantKey>> Authenticator::find(std::string_view key,
                                                             const std::string& host, Front front) {
  const std::string network = network_of(host);
  if (Status status = check_network(network); !status.ok()) {
    count_refusal(front);
    return status;
  }
  Result<std::shared_ptr<const TenantKey>> found = tenants_.find(key);
  if (found.ok()) {
    Status right = check_right(tenants_, **found, front);
    if (right.ok()) return found;
    count_refusal(front);
    return right;
  }
  count_refusal(front);
  if (!throttles_ || key.empty()) return found;  // a missing key is no guess
  const MutexLock lock(mu_);
  auth_failures_.add(network, clock_.now());
  return found;
}

Result<std::shared_ptr<const TenantKey>> Authenticator::find_certificate(const std::string& tenant,
                                                                         Front front) {
  Result<std::shared_ptr<const TenantKey>> found = tenants_.find_certificate(tenant);
  if (found.ok()) {
    if (Status right = check_right(tenants_, **found, front); !right.ok()) found = right;
  }
  if (!found.ok()) count_refusal(front);
  return found;
}

void Authenticator::count_refusal(Front front) {
  refused_[static_cast<std::size_t>(front)].fetch_add(1, std::memory_order_relaxed);
}

Status Authenticator::check_network(const std::string& network) {
  const MutexLock lock(mu_);
  if (!auth_failures_.too_many(network, clock_.now())) return {};
  const auto delay =
      std::chrono::duration_cast<std::chrono::seconds>(AuthFailureLimiter::kRetryInterval);
  return resource_exhausted("too many wrong keys came from this address; retry in " +
                            std::to_string(delay.count()) + " s");
}

}  // namespace outrider
