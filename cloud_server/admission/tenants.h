// Who may come in, and how much of the server each may use: keys, sessions, token buckets.
//
//   Result<std::shared_ptr<const TenantKey>> key = tenants.find("or-..");
//   const AdmissionResult in = tenants.admit(key->tenant, session_key, 300, now);
//   tenants.serve(key->tenant, in.session)  ..  tenants.leave(key->tenant, in.session)
//
// Thread rule: any thread. Errors: UNAUTHENTICATED, the same words and the same time for every key
// that is not known; RESOURCE_EXHAUSTED with a delay. SPDX-License-Identifier: Apache-2.0
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

namespace outrider {

// A key, or a certificate's name, that was known when it came in.
struct TenantKey {
  TenantKey(std::string name, std::optional<Sha256::Digest> key_hash)
      : tenant(std::move(name)), hash(key_hash) {}

  const std::string tenant;
  const std::optional<Sha256::Digest> hash;  // nothing: of a certificate
  std::atomic<bool> revoked{false};          // no longer in the file
};

// UNAUTHENTICATED once the key is no longer in the file. Null: there is none to look at.
Status check_not_revoked(const TenantKey* key);

// Whether a session may open, and when to ask again.
struct AdmissionResult {
  Status status;
  Duration retry_after{0};   // spread_delay()
  std::string session = {};  // the name that serve() and leave() know it by; empty if refused
};

class Tenants final {
 public:
  // Takes the file's keys; those that are gone from it are revoked, also for who is in.
  void replace(const TokenFile& file);

  Result<std::shared_ptr<const TenantKey>> find(std::string_view token) const;
  // That of a tenant who comes by certificate: of its line for certificates, else of any.
  // PERMISSION_DENIED if it has none.
  Result<std::shared_ptr<const TenantKey>> find_certificate(const std::string& tenant) const;

  // A session of the tenant opens, with a prompt of so many tokens; leave() when it is over.
  // key: chosen by the edge, so that a stream that replaces a session's counts once; without one
  // it is a new session.
  AdmissionResult admit(const std::string& tenant, const std::string& key, double prompt_tokens,
                        TimePoint now);
  void leave(const std::string& tenant, const std::string& session);
  // The session has its first token: it waits no more.
  void serve(const std::string& tenant, const std::string& session);
  // So many rows were computed for the tenant.
  void charge(const std::string& tenant, double rows, TimePoint now);
  // From when on it may have more rows; in the past: now.
  TimePoint rows_ready_at(const std::string& tenant) const;
  // A tenant that is not in the file has neither limits nor rights.
  TenantLimits limits_of(const std::string& tenant) const;
  // The tenants whose share is less than this.
  std::vector<std::string> with_less_kv_than(std::int64_t bytes) const;

 private:
  // What flows in with time and is taken by use; below zero nobody is admitted.
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
