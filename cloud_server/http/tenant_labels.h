// The tenants that have counters of their own: certificates may bring any number of names.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "common/base/mutex.h"

namespace outrider {

class TenantLabels final {
 public:
  static constexpr std::size_t kMost = 1000;
  static constexpr const char* kOthers = "(others)";  // no tenant's name

  // The tenant's name if it was among the first, else that of all others together.
  std::string of(const std::string& tenant) {
    const MutexLock lock(mu_);
    if (known_.contains(tenant)) return tenant;
    if (known_.size() >= kMost) return kOthers;
    known_.insert(tenant);
    return tenant;
  }

 private:
  Mutex mu_;
  std::set<std::string> known_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
