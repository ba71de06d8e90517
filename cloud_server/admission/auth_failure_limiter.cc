// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/admission/auth_failure_limiter.h"

#include <algorithm>

namespace outrider {

void AuthFailureLimiter::add(const std::string& host, TimePoint now) {
  if (debts_.size() >= kHosts && !debts_.contains(host)) forget_one(now);
  Debt& debt = debts_[host];
  debt = {left(debt, now) + 1, now};
}

bool AuthFailureLimiter::too_many(const std::string& host, TimePoint now) const {
  const auto at = debts_.find(host);
  return at != debts_.end() && left(at->second, now) > kBurst - 1;
}

double AuthFailureLimiter::left(const Debt& debt, TimePoint now) {
  return std::max(0.0, debt.keys - to_seconds(now - debt.at) / to_seconds(kRetryInterval));
}

// Also forgets all addresses whose debt has expired.
void AuthFailureLimiter::forget_one(TimePoint now) {
  std::erase_if(debts_, [&](const auto& entry) { return left(entry.second, now) <= 0; });
  if (debts_.size() < kHosts) return;
  debts_.erase(std::ranges::min_element(
      debts_, {}, [&](const auto& entry) { return left(entry.second, now); }));
}

}  // namespace outrider
