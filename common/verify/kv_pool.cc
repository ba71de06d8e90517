// SPDX-License-Identifier: Apache-2.0
#include "common/verify/kv_pool.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// Backends take memory in pages of so many slots.
constexpr std::int64_t kPageSlots = 64;

std::string mib(std::int64_t bytes) {
  return std::to_string(bytes >> 20);
}

}  // namespace

bool names_session(const SessionName& wanted, const SessionName& session) {
  if (wanted.owner.tenant != session.owner.tenant) return false;
  return (!wanted.id.empty() && wanted.id == session.id) ||
         (!wanted.key.empty() && wanted.key == session.key);
}

KvPool::KvPool(Model& model, const KvPoolOptions& options) : model_(model), options_(options) {}

std::int64_t KvPool::bytes_of(std::int32_t slots) const {
  const std::int64_t pages = (std::min(slots, options_.capacity) + kPageSlots - 1) / kPageSlots;
  return pages * kPageSlots * model_.info().kv_bytes_per_position;
}

// Room for so many more bytes of the tenant: what nobody uses goes first.
Status KvPool::make_room(const std::string& tenant, std::int64_t bytes) {
  OUTRIDER_RETURN_IF_ERROR(make_room_in_share(tenant, bytes));
  if (options_.max_bytes <= 0) return {};
  while (used_bytes_ + bytes > options_.max_bytes && !kept_.empty()) drop(next_victim());
  if (used_bytes_ + bytes <= options_.max_bytes) return {};
  return is_short("the memory for keys and values (--kv-cache-memory) is in use: " +
                  mib(used_bytes_) + " of " + mib(options_.max_bytes) + " MiB");
}

Status KvPool::make_room_in_share(const std::string& tenant, std::int64_t bytes) {
  const std::int64_t share = options_.tenant_bytes ? options_.tenant_bytes(tenant) : 0;
  if (share <= 0) return {};
  while (true) {
    const auto used = used_of_tenant_.find(tenant);
    const std::int64_t now = used == used_of_tenant_.end() ? 0 : used->second;
    if (now + bytes <= share) return {};
    const auto own = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.lease.tenant == tenant && kept.lease.slots > 0;
    });
    if (own == kept_.end()) {
      why_short_ = "tenant " + tenant;
      return resource_exhausted("this key's tenant has used its kv-memory: " + mib(now) + " of " +
                                mib(share) + " MiB, and " + mib(bytes) + " more are needed");
    }
    drop(own);
  }
}

// How much memory there is, is not for edges.
Status KvPool::is_short(std::string why) {
  why_short_ = std::move(why);
  return resource_exhausted("this verifier is short of memory for keys and values");
}

void KvPool::count(const std::string& tenant, std::int64_t bytes) {
  used_bytes_ += bytes;
  std::int64_t& used = used_of_tenant_[tenant];
  used += bytes;
  if (used == 0) used_of_tenant_.erase(tenant);
}

Result<KvPool::Lease> KvPool::take(const SessionName& wanted, std::span<const TokenId> prefix,
                                   std::int32_t slots) {
  OUTRIDER_CHECK(!prefix.empty());
  if (const auto at = find(wanted); at != kept_.end()) {
    // The last token of the prefix is always computed: its logits choose the first of the answer.
    const auto found = kept_.erase(at, at);  // the same place, to be changed
    const auto held = std::span(found->text)
                          .first(static_cast<std::size_t>(found->lease.cache->slots().committed()));
    const auto usable = prefix.first(prefix.size() - 1);
    const auto common =
        std::mismatch(usable.begin(), usable.end(), held.begin(), held.end()).first -
        usable.begin();
    Lease lease = std::move(found->lease);
    kept_.erase(found);
    lease.cached = common;
    lease.cache->slots().truncate(common);
    const Status room = grow(lease, slots);
    if (room.ok()) return lease;
    release(std::move(lease));
    return room;
  }
  const std::string& tenant = wanted.owner.tenant;
  OUTRIDER_RETURN_IF_ERROR(make_room(tenant, bytes_of(slots)));
  while (true) {
    Result<std::unique_ptr<KvCache>> cache = model_.new_cache(options_.capacity);
    if (cache.ok()) {
      count(tenant, bytes_of(slots));
      return Lease{.cache = *std::move(cache), .cached = 0, .slots = slots, .tenant = tenant};
    }
    if (cache.status().code() != StatusCode::kResourceExhausted) return cache.status();
    if (kept_.empty()) return is_short(cache.status().message());
    drop(next_victim());  // the system itself is short of memory
  }
}

Status KvPool::grow(Lease& lease, std::int32_t slots) {
  if (slots <= lease.slots) return {};
  const std::int64_t more = bytes_of(slots) - bytes_of(lease.slots);
  OUTRIDER_RETURN_IF_ERROR(make_room(lease.tenant, more));
  count(lease.tenant, more);
  lease.slots = slots;
  return {};
}

void KvPool::release(Lease lease) {
  count(lease.tenant, -bytes_of(lease.slots));
}

void KvPool::keep(SessionName name, Lease lease, std::span<const TokenId> text, TimePoint now) {
  OUTRIDER_CHECK(lease.cache->slots().committed() <= static_cast<Position>(text.size()));
  kept_.push_back({std::move(name), std::move(lease), {text.begin(), text.end()}, now});
  if (kept_.size() > options_.kept) drop(next_victim());
}

const std::vector<TokenId>* KvPool::text_of(const SessionName& wanted) const {
  const auto at = find(wanted);
  return at == kept_.end() ? nullptr : &at->text;
}

void KvPool::expire(TimePoint now) {
  while (!kept_.empty() && next_expiry().value_or(TimePoint::max()) <= now) drop(kept_.begin());
}

std::optional<TimePoint> KvPool::next_expiry() const {
  if (kept_.empty() || options_.kept_for <= Duration{0}) return std::nullopt;
  return kept_.front().since + options_.kept_for;
}

KvPool::KeptList::const_iterator KvPool::find(const SessionName& wanted) const {
  return std::find_if(kept_.begin(), kept_.end(),
                      [&](const Kept& kept) { return names_session(wanted, kept.name); });
}

// The longest unused one of the group that has most: who fills the pool displaces his own.
KvPool::KeptList::iterator KvPool::next_victim() {
  std::map<std::string_view, std::size_t> count;
  for (const Kept& kept : kept_) ++count[kept.name.owner.group];
  return std::max_element(kept_.begin(), kept_.end(), [&](const Kept& a, const Kept& b) {
    return count[a.name.owner.group] < count[b.name.owner.group];
  });
}

void KvPool::drop(KeptList::iterator at) {
  release(std::move(at->lease));
  kept_.erase(at);
}

}  // namespace outrider
