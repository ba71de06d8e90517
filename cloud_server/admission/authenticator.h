// Whose key it is, for all fronts of the server alike: gRPC, OpenAI's routes, /metrics.
//
// An address (of IPv6: a /64) that has brought too many wrong keys is told to come back later
// before its next one is looked at, so that guessing is slow, and costs nobody but those of its
// address. Behind a proxy, which has one address for all, that must be off.
//
// Thread rule: any thread. Ownership: the tenants outlive it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cloud_server/admission/tenants.h"
#include "cloud_server/admission/wrong_keys.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace outrider {

enum class Front : std::uint8_t { kGrpc, kOpenAi, kMetrics };

class Authenticator final {
 public:
  // throttles: whether addresses are told to come back later.
  Authenticator(const Tenants& tenants, bool throttles)
      : tenants_(tenants), throttles_(throttles) {}

  // host: the address alone. UNAUTHENTICATED for a key that is not known; RESOURCE_EXHAUSTED for
  // any from an address with too many wrong ones; PERMISSION_DENIED for one that reads metrics, at
  // another front than theirs.
  Result<std::shared_ptr<const TenantKey>> find(std::string_view key, const std::string& host,
                                                Front front);

  // For who comes by a certificate of this common name. PERMISSION_DENIED if no line of the file
  // names that tenant, or it reads metrics.
  Result<std::shared_ptr<const TenantKey>> find_certificate(const std::string& tenant, Front front);

  // How often it gave no key.
  std::uint64_t refused(Front front) const {
    return refused_[static_cast<std::size_t>(front)].load(std::memory_order_relaxed);
  }

 private:
  Status check_network(const std::string& network);
  void count_refusal(Front front);

  const Tenants& tenants_;
  const bool throttles_;
  SystemClock clock_;
  std::array<std::atomic<std::uint64_t>, 3> refused_{};
  Mutex mu_;
  WrongKeys wrong_keys_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
