// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/admission/tenants.h"

#include <algorithm>
#include <utility>

#include "common/base/rate_limit.h"

namespace outrider {
namespace {

// A bucket holds the inflow of so many seconds: the largest burst.
constexpr double kBurstSeconds = 60;
// The retry delay where a limit of sessions refuses: a guess at when a session ends.
constexpr Duration kSessionDelay = std::chrono::seconds(2);
constexpr std::size_t kLongestToken = 512;

// Takes the same time wherever the two differ.
bool same(const Sha256::Digest& a, const Sha256::Digest& b) {
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

Duration until_positive(double level, double per_second) {
  return from_ms(std::max(1.0, -level / per_second * 1e3));
}

}  // namespace

Status check_tier(const Tenants* tenants, const std::string& tenant, ServiceTier tier) {
  if (tier != ServiceTier::kPriority || tenants == nullptr || tenants->limits_of(tenant).priority) {
    return {};
  }
  return permission_denied(
             "service_tier: priority is not a right of this key (the word priority on its line in "
             "--token-file). Remedy: default or flex")
      .with_detail({.reason = "insufficient_permissions", .field = "service_tier"});
}

Status check_not_revoked(const TenantKey* key) {
  if (key == nullptr || !key->revoked.load(std::memory_order_relaxed)) return {};
  return unauthenticated("the key of this call is no longer valid");
}

void Tenants::replace(const TokenFile& file) {
  const MutexLock lock(mu_);
  std::vector<std::shared_ptr<TenantKey>> keys;
  std::map<std::string, TenantLimits> limits;
  for (const TokenEntry& entry : file.entries) {
    limits.try_emplace(entry.tenant, entry.limits);
    const auto known = std::find_if(keys_.begin(), keys_.end(), [&](const auto& key) {
      return key->tenant == entry.tenant && key->hash == entry.hash;
    });
    keys.push_back(known != keys_.end() ? *known
                                        : std::make_shared<TenantKey>(entry.tenant, entry.hash));
  }
  for (const auto& key : keys_) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) key->revoked.store(true);
  }
  keys_ = std::move(keys);
  for (auto& [name, tenant] : tenants_)
    tenant.limits = {};  // tenants that are no longer in the file
  for (auto& [name, limit] : limits) tenants_[name].limits = limit;
}

// Compares with every key, so that the time does not reveal the nearest.
Result<std::shared_ptr<const TenantKey>> Tenants::find(std::string_view token) const {
  const Sha256::Digest hash = hash_of(token.substr(0, kLongestToken + 1));
  const MutexLock lock(mu_);
  std::shared_ptr<const TenantKey> found;
  for (const auto& key : keys_) {
    if (key->hash && same(hash, *key->hash)) found = key;
  }
  if (found != nullptr) return found;
  return unauthenticated(
      "the call has no key that this server knows, as authorization: Bearer KEY. Remedy: an edge's "
      "--token-file, an OpenAI client's api_key");
}

Result<std::shared_ptr<const TenantKey>> Tenants::find_certificate(
    const std::string& tenant) const {
  const MutexLock lock(mu_);
  std::shared_ptr<const TenantKey> found;
  for (const auto& key : keys_) {
    if (key->tenant == tenant && (found == nullptr || !key->hash)) found = key;
  }
  if (found != nullptr) return found;
  return permission_denied("the tenant of this certificate has no line in the file of keys");
}

AdmissionResult Tenants::admit(const std::string& name, const std::string& key,
                               double prompt_tokens, TimePoint now) {
  const MutexLock lock(mu_);
  Tenant& tenant = tenants_[name];
  const TenantLimits& limits = tenant.limits;
  // An edge cannot choose such a name: it is no valid session key.
  const std::string session =
      key.empty() ? "without key " + std::to_string(++sessions_without_key_) : "key " + key;
  if (Status counts = check_counts(tenant, session); !counts.ok()) {
    return refuse(std::move(counts), kSessionDelay);
  }
  const double tokens_per_second = limits.prompt_tokens_per_minute / 60;
  if (tokens_per_second > 0) {
    refill(tenant.prompt_tokens, tokens_per_second, now);
    if (tenant.prompt_tokens.level < 0) {
      return refuse(resource_exhausted("this key's tenant has used its prompt-tokens-per-minute"),
                    until_positive(tenant.prompt_tokens.level, tokens_per_second));
    }
  }
  if (limits.rows_per_second > 0) {
    refill(tenant.rows, limits.rows_per_second, now);
    if (tenant.rows.level < 0) {
      return refuse(resource_exhausted("this key's tenant has used more than its rows-per-second"),
                    until_positive(tenant.rows.level, limits.rows_per_second));
    }
  }
  tenant.prompt_tokens.level -= prompt_tokens;
  ++tenant.sessions[session].streams;
  return {.status = {}, .session = session};
}

AdmissionResult Tenants::refuse(Status why, Duration delay) {
  return {.status = std::move(why), .retry_after = spread_delay(delay, ++refused_)};
}

// A stream that replaces a session's stream takes no more of the quota.
Status Tenants::check_counts(const Tenant& tenant, const std::string& session) {
  const TenantLimits& limits = tenant.limits;
  const auto& sessions = tenant.sessions;
  if (sessions.contains(session)) return {};
  if (limits.sessions > 0 && sessions.size() >= limits.sessions) {
    return resource_exhausted("all " + std::to_string(limits.sessions) +
                              " sessions of this key's tenant are taken");
  }
  const auto waiting = std::count_if(sessions.begin(), sessions.end(),
                                     [](const auto& entry) { return entry.second.waits; });
  if (limits.queued_requests > 0 && waiting >= limits.queued_requests) {
    return resource_exhausted("this key's tenant has its queued-requests, " +
                              std::to_string(limits.queued_requests) +
                              ", waiting for their first token");
  }
  return {};
}

void Tenants::serve(const std::string& name, const std::string& session) {
  const MutexLock lock(mu_);
  std::map<std::string, Session>& sessions = tenants_[name].sessions;
  const auto at = sessions.find(session);
  if (at != sessions.end()) at->second.waits = false;
}

TenantLimits Tenants::limits_of(const std::string& name) const {
  const MutexLock lock(mu_);
  const auto at = tenants_.find(name);
  return at == tenants_.end() ? TenantLimits() : at->second.limits;
}

std::vector<std::string> Tenants::with_less_kv_than(std::int64_t bytes) const {
  const MutexLock lock(mu_);
  std::vector<std::string> names;
  for (const auto& [name, tenant] : tenants_) {
    const std::int64_t share = tenant.limits.kv_bytes;
    if (share > 0 && share < bytes) names.push_back(name);
  }
  return names;
}

void Tenants::leave(const std::string& name, const std::string& session) {
  const MutexLock lock(mu_);
  std::map<std::string, Session>& sessions = tenants_[name].sessions;
  const auto at = sessions.find(session);
  if (at != sessions.end() && --at->second.streams == 0) sessions.erase(at);
}

void Tenants::charge(const std::string& name, double rows, TimePoint now) {
  const MutexLock lock(mu_);
  const auto at = tenants_.find(name);
  if (at == tenants_.end() || at->second.limits.rows_per_second <= 0) return;
  refill(at->second.rows, at->second.limits.rows_per_second, now);
  at->second.rows.level -= rows;
}

TimePoint Tenants::rows_ready_at(const std::string& name) const {
  const MutexLock lock(mu_);
  const auto at = tenants_.find(name);
  if (at == tenants_.end()) return TimePoint{};
  const Bucket& rows = at->second.rows;
  const double per_second = at->second.limits.rows_per_second;
  if (per_second <= 0 || rows.level >= 0) return TimePoint{};
  return rows.at + until_positive(rows.level, per_second);
}

void Tenants::refill(Bucket& bucket, double per_second, TimePoint now) {
  const double full = per_second * kBurstSeconds;
  if (bucket.at == TimePoint{}) bucket.level = full;
  bucket.level = std::min(full, bucket.level + per_second * to_seconds(now - bucket.at));
  bucket.at = now;
}

}  // namespace outrider
