// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/admission/authenticator.h"

namespace outrider {

Result<std::shared_ptr<const TenantKey>> Authenticator::find(std::string_view key,
                                                             const std::string& host, Front front) {
  if (Status status = check_host(host); !status.ok()) {
    count_refusal(front);
    return status;
  }
  Result<std::shared_ptr<const TenantKey>> found = tenants_.find(key);
  if (found.ok()) return found;
  count_refusal(front);
  if (!throttles_ || key.empty()) return found;  // without a key nothing is guessed
  const MutexLock lock(mu_);
  wrong_keys_.add(host, clock_.now());
  return found;
}

Result<std::shared_ptr<const TenantKey>> Authenticator::find_certificate(const std::string& tenant,
                                                                         Front front) {
  Result<std::shared_ptr<const TenantKey>> found = tenants_.find_certificate(tenant);
  if (!found.ok()) count_refusal(front);
  return found;
}

void Authenticator::count_refusal(Front front) {
  refused_[static_cast<std::size_t>(front)].fetch_add(1, std::memory_order_relaxed);
}

Status Authenticator::check_host(const std::string& host) {
  const MutexLock lock(mu_);
  if (!wrong_keys_.too_many(host, clock_.now())) return {};
  const auto delay = std::chrono::duration_cast<std::chrono::seconds>(WrongKeys::kOneIn);
  return resource_exhausted("too many wrong keys came from this address; retry in " +
                            std::to_string(delay.count()) + " s");
}

}  // namespace outrider
