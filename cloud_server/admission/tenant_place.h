// A stream's share of its tenant's quota, released at its end.
//
//   take  serve*  ~
//
// Thread rule: take() before serve(), which may then run on another thread; the destructor after
// both. Ownership: the tenants outlive it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "cloud_server/admission/tenants.h"
#include "common/base/clock.h"

namespace outrider {

class TenantPlace final {
 public:
  TenantPlace() = default;
  ~TenantPlace() {
    if (tenants_ != nullptr) tenants_->leave(tenant_, session_);
  }
  TenantPlace(const TenantPlace&) = delete;
  TenantPlace& operator=(const TenantPlace&) = delete;

  // Works as Tenants::admit() does. Null or no tenant: there is no quota.
  AdmissionResult take(Tenants* tenants, const std::string& tenant, const std::string& key,
                       double prompt_tokens) {
    if (tenants == nullptr || tenant.empty()) return {};
    AdmissionResult result = tenants->admit(tenant, key, prompt_tokens, SystemClock().now());
    if (!result.status.ok()) return result;
    tenants_ = tenants;
    tenant_ = tenant;
    session_ = result.session;
    return result;
  }
  // The stream has its first verdict; later calls have no effect.
  void serve() {
    if (tenants_ != nullptr && !std::exchange(served_, true)) tenants_->serve(tenant_, session_);
  }

 private:
  Tenants* tenants_ = nullptr;  // null: holds no quota
  std::string tenant_;
  std::string session_;
  bool served_ = false;
};

}  // namespace outrider
