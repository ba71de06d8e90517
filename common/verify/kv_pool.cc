// SPDX-License-Identifier: Apache-2.0
#include "common/verify/kv_pool.h"

#include <algorithm>
#include <map>
#include <utility>

namespace outrider {
namespace {

// Backends take memory in pages of so many slots.
constexpr std::int64_t kPageSlots = 64;

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

// Room for so many more bytes: what nobody uses goes first.
bool KvPool::make_room(std::int64_t bytes) {
  if (options_.max_bytes <= 0) return true;
  while (used_bytes_ + bytes > options_.max_bytes && !kept_.empty()) drop(next_victim());
  return used_bytes_ + bytes <= options_.max_bytes;
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
    if (grow(lease, slots)) return lease;
    release(std::move(lease));
  } else if (make_room(bytes_of(slots))) {
    while (true) {
      Result<std::unique_ptr<KvCache>> cache = model_.new_cache(options_.capacity);
      if (cache.ok()) {
        used_bytes_ += bytes_of(slots);
        return Lease{.cache = *std::move(cache), .cached = 0, .slots = slots};
      }
      if (kept_.empty()) return cache.status();
      drop(next_victim());  // the system itself is short of memory
    }
  }
  return resource_exhausted("the memory for keys and values (--kv-cache-memory) is in use: " +
                            std::to_string(used_bytes_ >> 20) + " of " +
                            std::to_string(options_.max_bytes >> 20) + " MiB");
}

bool KvPool::grow(Lease& lease, std::int32_t slots) {
  if (slots <= lease.slots) return true;
  const std::int64_t more = bytes_of(slots) - bytes_of(lease.slots);
  if (!make_room(more)) return false;
  used_bytes_ += more;
  lease.slots = slots;
  return true;
}

void KvPool::release(Lease lease) {
  used_bytes_ -= bytes_of(lease.slots);
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
