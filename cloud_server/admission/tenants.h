// Authenticates and limits tenants: keys, sessions, token buckets.
//
//   Result<std::shared_ptr<const TenantKey>> key = tenants.find("or-..");
//   const AdmissionResult in = tenants.admit(key->tenant, session_key, 300, now);
//   tenants.serve(key->tenant, in.session)  ..  tenants.leave(key->tenant, in.session)
//
// Thread rule: any thread. Errors: UNAUTHENTICATED, with the same text and after the same time for
// every unknown key; RESOURCE_EXHAUSTED with a delay. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cloud_server/admission/token_file.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/decoding/request/text_options.h"

namespace outrider {

// A key, or a certificate's name, that was valid when its client connected.
struct TenantKey {
  TenantKey(std::string name, std::optional<Sha256::Digest> key_hash)
      : tenant(std::move(name)), hash(key_hash) {}

  const std::string tenant;
  const std::optional<Sha256::Digest> hash;  // nothing: a certificate
  std::atomic<bool> revoked{false};          // no longer in the file
};

// UNAUTHENTICATED once the key is no longer in the file. Null: no key is required.
Status check_not_revoked(const TenantKey* key);

class Tenants;

// PERMISSION_DENIED unless the tenant may have answers of this tier. Null: no key is required.
Status check_tier(const Tenants* tenants, const std::string& tenant, ServiceTier tier);

// Whether a session may open, and if not, when to retry.
struct AdmissionResult {
  Status status;
  Duration retry_after{0};   // varied by spread_delay()
  std::string session = {};  // the name for serve() and leave(); empty if refused
};

class Tenants final {
 public:
  // Takes the file's keys. Keys that are no longer in it are revoked, also for open streams.
  void replace(const TokenFile& file);

  Result<std::shared_ptr<const TenantKey>> find(std::string_view token) const;
  // The key of a tenant with a certificate: of its line for certificates, else of any line.
  // PERMISSION_DENIED if it has none.
  Result<std::shared_ptr<const TenantKey>> find_certificate(const std::string& tenant) const;

  // Opens a session of the tenant, with a prompt of so many tokens; call leave() at its end. key:
  // chosen by the edge, so that a stream that replaces a session's stream counts once; without one
  // it is a new session.
  AdmissionResult admit(const std::string& tenant, const std::string& key, double prompt_tokens,
                        TimePoint now);
  void leave(const std::string& tenant, const std::string& session);
  // The session has its first token and no longer counts as queued.
  void serve(const std::string& tenant, const std::string& session);
  // Counts rows computed for the tenant.
  void charge(const std::string& tenant, double rows, TimePoint now);
  // When the tenant may have more rows; in the past: now.
  TimePoint rows_ready_at(const std::string& tenant) const;
  // A tenant that is not in the file has neither limits nor rights.
  TenantLimits limits_of(const std::string& tenant) const;
  // The tenants whose memory share is smaller than this.
  std::vector<std::string> with_less_kv_than(std::int64_t bytes) const;

 private:
  // A token bucket: refilled over time, drained by use. Below zero no session is admitted.
  struct Bucket {
    double level = 0;
    TimePoint at{};
  };
  struct Session {
    int streams = 0;
    bool waits = true;  // for its first token
  };
  struct Tenant {
    TenantLimits limits;
    std::map<std::string, Session> sessions;
    Bucket prompt_tokens;
    Bucket rows;
  };

  AdmissionResult refuse(Status why, Duration delay) OUTRIDER_REQUIRES(mu_);
  static Status check_counts(const Tenant& tenant, const std::string& session);
  static void refill(Bucket& bucket, double per_second, TimePoint now);

  mutable Mutex mu_;
  std::vector<std::shared_ptr<TenantKey>> keys_ OUTRIDER_GUARDED_BY(mu_);
  std::map<std::string, Tenant> tenants_ OUTRIDER_GUARDED_BY(mu_);
  std::uint64_t sessions_without_key_ OUTRIDER_GUARDED_BY(mu_) = 0;  // so far
  std::uint64_t refused_ OUTRIDER_GUARDED_BY(mu_) = 0;               // so far
};

}  // namespace outrider
