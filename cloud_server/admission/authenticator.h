// Authentication for all front ends of the server: gRPC, OpenAI's routes, /metrics.
//
// An address (of IPv6: a /64) that has sent too many wrong keys must wait before its next key is
// checked. This makes guessing slow and affects only clients of that address. Behind a proxy, which
// has one address for all clients, it must be off.
//
// Thread rule: any thread. Ownership: the tenants outlive it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cloud_server/admission/auth_failure_limiter.h"
#include "cloud_server/admission/tenants.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace outrider {

enum class Front : std::uint8_t { kGrpc, kOpenAi, kMetrics };

class Authenticator final {
 public:
  // throttles: whether addresses must wait after too many wrong keys.
  Authenticator(const Tenants& tenants, bool throttles)
      : tenants_(tenants), throttles_(throttles) {}

  // host: the address without port. UNAUTHENTICATED for an unknown key; RESOURCE_EXHAUSTED for any
  // key from an address with too many wrong ones; PERMISSION_DENIED for a key that reads metrics,
  // at another front end.
  Result<std::shared_ptr<const TenantKey>> find(std::string_view key, const std::string& host,
                                                Front front);

  // For a client with a certificate of this common name. PERMISSION_DENIED if no line of the file
  // names that tenant, or if its line is for reading metrics.
  Result<std::shared_ptr<const TenantKey>> find_certificate(const std::string& tenant, Front front);

  // How many keys were refused.
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
  AuthFailureLimiter auth_failures_ OUTRIDER_GUARDED_BY(mu_);
};

// The identity of a client.
struct Caller {
  std::string tenant;                    // empty: no identity is required
  std::shared_ptr<const TenantKey> key;  // null: there is none, or none is required
};

// The credentials that a client shows.
struct Credentials {
  std::string_view key;  // empty: none
  std::string host;      // its address without port
  // The common name of its verified certificate; empty if that has not exactly one. Nothing: it has
  // none.
  std::optional<std::string> certificate_name = {};
};

// authenticator: null: no keys are required. Errors of its find(); PERMISSION_DENIED if key and
// certificate name different tenants, if the certificate's name is no tenant's, which would have no
// quota, or if its tenant is not admitted.
Result<Caller> identify(const Credentials& shown, Authenticator* authenticator, Front front);

}  // namespace outrider
