// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/memory/kv_pool.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace outrider {
namespace {

constexpr std::size_t kRows = KvPages::kRows;

std::string mib(std::int64_t bytes) {
  return std::to_string(bytes >> 20);
}

}  // namespace

KvPoolOptions part_of(KvPoolOptions both, const ModelInfo& model, const ModelInfo& other) {
  const std::int64_t all = model.kv_bytes_per_position + other.kv_bytes_per_position;
  if (all == 0) return both;
  const double part = static_cast<double>(model.kv_bytes_per_position) / static_cast<double>(all);
  const auto of = [part](std::int64_t bytes) -> std::int64_t {
    if (bytes <= 0) return bytes;  // no bound
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(bytes) * part));
  };
  both.max_bytes = of(both.max_bytes);
  if (both.tenant_bytes) {
    both.tenant_bytes = [of, whole = std::move(both.tenant_bytes)](const std::string& tenant) {
      return of(whole(tenant));
    };
  }
  return both;
}

bool names_session(const SessionName& wanted, const SessionName& session) {
  if (wanted.owner.tenant != session.owner.tenant) return false;
  return (!wanted.id.empty() && wanted.id == session.id) ||
         (!wanted.key.empty() && wanted.key == session.key);
}

KvPool::KvPool(Model& model, const KvPoolOptions& options, std::uint32_t sessions)
    : model_(model),
      options_(options),
      most_pages_((std::int64_t{sessions} + options.kept) * KvSlots::pages_for(options.capacity)) {}

// Where there is no bound, as many pages as there is memory for.
Status KvPool::allocate() {
  if (memory_) return {};
  const std::int64_t page_bytes = bytes_per_page();
  const bool bounded = options_.max_bytes > 0 && page_bytes > 0;
  std::int64_t count = bounded ? options_.max_bytes / page_bytes : most_pages_;
  const std::int32_t most = model_.info().most_kv_pages;
  count = std::clamp<std::int64_t>(count, 1, most > 0 ? most : KvPages::kMost);
  Result<std::shared_ptr<KvPages>> pages = model_.new_pages(static_cast<std::int32_t>(count));
  while (!bounded && pages.status().code() == StatusCode::kResourceExhausted && count > 1) {
    count /= 2;
    pages = model_.new_pages(static_cast<std::int32_t>(count));
  }
  too_large_ = !pages.ok();  // nobody has any that could become free
  if (too_large_) return pages.status();
  memory_.emplace(*std::move(pages));
  return {};
}

std::int64_t KvPool::used_bytes() const {
  if (!memory_) return 0;
  return memory_->pages->used() * bytes_per_page();
}

std::int64_t KvPool::bound_bytes() const {
  if (!memory_) return 0;
  return memory_->pages->count() * bytes_per_page();
}

std::int64_t KvPool::bytes_per_page() const {
  return model_.info().kv_bytes_per_position * KvPages::kRows;
}

std::int32_t KvPool::free_beside(const Lease& lease) const {
  const std::int32_t promised = std::accumulate(promised_.begin(), promised_.end(), 0);
  return memory_->pages->free() - (promised - lease.promised);
}

// Room for so many more pages of the session, beside what others were promised: what nobody uses
// goes first. How much memory there is, is not for edges.
Status KvPool::make_room(const Lease& lease, std::int32_t pages) {
  OUTRIDER_RETURN_IF_ERROR(check_size(lease, pages));
  OUTRIDER_RETURN_IF_ERROR(make_room_in_share(lease, pages));
  const KvPages& all = *memory_->pages;
  const std::int32_t free = free_beside(lease);
  if (free < pages && free + memory_->prefixes.droppable() < pages) {  // the latter looks at all
    share_short_ = false;
    why_short_ = "the memory for keys and values (--kv-cache-memory) is in use: " +
                 std::to_string(all.used()) + " of " + std::to_string(all.count()) + " pages, " +
                 std::to_string(all.free() - free) + " more are promised";
    return resource_exhausted("this verifier is short of memory for keys and values");
  }
  return {};
}

// A session that needs more than all that it may ever have is told so, in tokens.
Status KvPool::check_size(const Lease& lease, std::int32_t pages) {
  const std::int64_t page_bytes = bytes_per_page();
  const std::int64_t share = options_.tenant_bytes ? options_.tenant_bytes(lease.tenant) : 0;
  std::int64_t most = memory_->pages->count();
  const bool by_share = share > 0 && page_bytes > 0 && share / page_bytes < most;
  if (by_share) most = share / page_bytes;
  const KvSlots& slots = lease.cache->slots();
  const auto last = static_cast<std::size_t>(slots.committed() / kRows);
  // A page of which another holder's copy is wanted; alone, the session writes to the page itself.
  const bool copies = pages > 0 && slots.committed() % kRows != 0 &&
                      memory_->pages->holders(slots.text_pages()[last]) > 1;
  const std::int64_t needed = std::ssize(slots.text_pages()) + pages - (copies ? 1 : 0);
  too_large_ = needed > most;
  if (!too_large_) return {};
  share_short_ = by_share;
  why_short_ = by_share ? "tenant " + lease.tenant : "--kv-cache-memory";
  const auto tokens = [](std::int64_t count) { return std::to_string(count * KvPages::kRows); };
  return resource_exhausted(
      "this answer needs memory for the keys and values of " + tokens(needed) + " tokens, and " +
      (by_share ? "kv-memory of this key's tenant" : "this verifier") + " has room for " +
      tokens(most) + ". Remedy: a shorter prompt, or fewer max_tokens");
}

Status KvPool::make_room_in_share(const Lease& lease, std::int32_t pages) {
  const std::int64_t share = options_.tenant_bytes ? options_.tenant_bytes(lease.tenant) : 0;
  if (share <= 0) return {};
  const std::int64_t page_bytes = bytes_per_page();
  KvPrefixes& prefixes = memory_->prefixes;
  while (true) {
    const std::int64_t used = page_bytes * (memory_->pages->used_by(lease.owner) - lease.promised +
                                            promised_[static_cast<std::size_t>(lease.owner)]);
    if (used + pages * page_bytes <= share) return {};
    if (prefixes.drop_one(lease.owner)) continue;
    share_short_ = true;
    why_short_ = "tenant " + lease.tenant;
    return resource_exhausted("this key's tenant has used its kv-memory: " + mib(used) + " of " +
                              mib(share) + " MiB, and " + mib(pages * page_bytes) +
                              " more are needed");
  }
}

// Drops the text that was unused for longest, of the group that has most.
bool KvPool::drop_unused() {
  std::vector<std::int32_t> owners(groups_.size());
  std::iota(owners.begin(), owners.end(), 0);
  std::ranges::sort(owners, std::greater<>(),
                    [&](std::int32_t owner) { return memory_->pages->used_by(owner); });
  return std::ranges::any_of(owners,
                             [&](std::int32_t owner) { return memory_->prefixes.drop_one(owner); });
}

std::string KvPool::root_of(const SessionName& wanted) {
  // No level of an elastic model reads another's keys and values.
  const std::string level = wanted.level == 0 ? "" : "\nlevel " + std::to_string(wanted.level);
  if (options_.share_prefixes) return wanted.owner.tenant + level;
  const auto kept = find(wanted);
  if (kept != kept_.end()) return kept->root;
  return wanted.owner.tenant + level + '\n' + std::to_string(++unshared_);
}

// A group without leases and pages gives its number to a new one.
std::int32_t KvPool::owner_of(const std::string& group) {
  std::size_t unused = groups_.size();
  for (std::size_t owner = 0; owner < groups_.size(); ++owner) {
    if (groups_[owner] == group) return static_cast<std::int32_t>(owner);
    const bool in_use =
        leases_[owner] > 0 || memory_->pages->used_by(static_cast<std::int32_t>(owner)) > 0;
    if (!in_use) unused = owner;
  }
  if (unused == groups_.size()) {
    groups_.emplace_back();
    leases_.push_back(0);
    promised_.push_back(0);
  }
  groups_[unused] = group;
  return static_cast<std::int32_t>(unused);
}

Result<KvPool::Lease> KvPool::take(const SessionName& wanted, std::span<const TokenId> prefix,
                                   std::int32_t rows, TimePoint now) {
  OUTRIDER_CHECK(!prefix.empty());
  OUTRIDER_RETURN_IF_ERROR(allocate());
  Lease lease{.cache = {},
              .tenant = wanted.owner.tenant,
              .root = root_of(wanted),
              .owner = owner_of(wanted.owner.group)};
  lease.cache =
      std::make_unique<KvCache>(memory_->pages, options_.capacity, lease.owner, wanted.level);
  // The last token of the prefix is always computed: its logits choose the first of the answer.
  const std::int64_t most = std::min(rows, options_.capacity);
  const KvPrefixes::Found found = find_beginning(lease, prefix.first(prefix.size() - 1),
                                                 (most + std::int64_t{kRows} - 1) / kRows, now);
  begin(lease, found);
  lease.cached = found.length;
  const KvSlots& slots = lease.cache->slots();
  const std::int32_t more = std::min(rows, options_.capacity) - slots.in_use();
  const std::int32_t pages = slots.pages_needed(std::max(more, 0), 0);
  OUTRIDER_RETURN_IF_ERROR(make_room(lease, pages));
  lease.promised = pages;
  promised_[static_cast<std::size_t>(lease.owner)] += pages;
  ++leases_[static_cast<std::size_t>(lease.owner)];
  return lease;
}

// A page that is not full is copied before the session writes to it. Where there is no room for the
// copy, the session computes the rows of that page again, in its memory.
KvPrefixes::Found KvPool::find_beginning(const Lease& lease, std::span<const TokenId> text,
                                         std::int64_t pages, TimePoint now) {
  KvPrefixes::Found found = memory_->prefixes.find(lease.root, text, now);
  const auto rest = static_cast<Position>(found.length % kRows);
  if (rest == 0) return found;
  const auto held_once = [&](std::span<const KvPage> some) {
    return std::ranges::count_if(some,
                                 [&](KvPage page) { return memory_->pages->holders(page) == 1; });
  };
  const std::int64_t room = free_beside(lease) + memory_->prefixes.droppable() -
                            held_once(found.pages) + held_once(lease.cache->slots().text_pages());
  if (room >= pages - std::ssize(found.pages) + 1) return found;
  found.pages.pop_back();
  found.length -= rest;
  return found;
}

void KvPool::begin(Lease& lease, const KvPrefixes::Found& found) {
  lease.cache->slots().begin_with(found.pages, found.length);
  lease.shared = found.full;
  lease.num_shared = static_cast<std::size_t>(found.length) / kRows;
}

Position KvPool::extend(Lease& lease, std::span<const TokenId> text, TimePoint now) {
  KvSlots& slots = lease.cache->slots();
  const KvPrefixes::Found found = find_beginning(
      lease, text.first(text.size() - 1), std::ssize(slots.text_pages()) + lease.promised, now);
  if (found.length > slots.committed()) {
    slots.truncate(0);
    begin(lease, found);
  }
  return slots.committed();
}

Status KvPool::reserve(Lease& lease, std::int32_t rows, std::int32_t branching) {
  KvSlots& slots = lease.cache->slots();
  const std::int32_t pages = slots.pages_needed(rows, branching);
  if (pages == 0) return {};
  OUTRIDER_RETURN_IF_ERROR(make_room(lease, pages));
  while (memory_->pages->free() < pages) OUTRIDER_CHECK(drop_unused());
  const std::int32_t kept = std::min(lease.promised, pages);
  lease.promised -= kept;
  promised_[static_cast<std::size_t>(lease.owner)] -= kept;
  return slots.reserve(rows, branching);
}

void KvPool::share(Lease& lease, std::span<const TokenId> text, TimePoint now) {
  KvSlots& slots = lease.cache->slots();
  const std::size_t full = static_cast<std::size_t>(slots.committed()) / kRows;
  for (; lease.num_shared < full; ++lease.num_shared) {
    const std::size_t index = lease.num_shared;
    const KvPage own = slots.text_pages()[index];
    lease.shared = memory_->prefixes.add(lease.root, lease.shared,
                                         text.subspan(index * kRows, kRows), own, lease.owner, now);
    // Another session had the same text: its page serves both.
    const KvPage page = lease.shared->page();
    if (page != own) slots.replace_page(index, page);
  }
}

void KvPool::keep(SessionName name, Lease lease, std::span<const TokenId> text, TimePoint now) {
  kept_.push_back({std::move(name), lease.root, {text.begin(), text.end()}, now});
  if (lease.cache != nullptr) stow(std::move(lease), text, now);
  if (kept_.size() > options_.kept) kept_.erase(next_victim());
}

void KvPool::stow(Lease lease, std::span<const TokenId> text, TimePoint now) {
  const KvSlots& slots = lease.cache->slots();
  const auto held = static_cast<std::size_t>(slots.committed());
  OUTRIDER_CHECK(held <= text.size());
  share(lease, text, now);
  const std::size_t rest = held - lease.num_shared * kRows;
  if (rest > 0) {
    memory_->prefixes.add(lease.root, lease.shared, text.subspan(held - rest, rest),
                          slots.text_pages()[lease.num_shared], lease.owner, now);
  }
  release(std::move(lease));
}

const std::vector<TokenId>* KvPool::text_of(const SessionName& wanted) const {
  const auto at = find(wanted);
  return at == kept_.end() ? nullptr : &at->text;
}

void KvPool::expire(TimePoint now) {
  if (options_.kept_for <= Duration{0}) return;
  while (!kept_.empty() && kept_.front().since + options_.kept_for <= now) kept_.pop_front();
  if (memory_) memory_->prefixes.drop_unused_since(now - options_.kept_for, now);
}

std::optional<TimePoint> KvPool::next_expiry() const {
  if (options_.kept_for <= Duration{0} || !memory_) return std::nullopt;
  std::optional<TimePoint> oldest = memory_->prefixes.unused_since();
  if (!kept_.empty()) oldest = std::min(oldest.value_or(TimePoint::max()), kept_.front().since);
  return oldest ? std::optional(*oldest + options_.kept_for) : std::nullopt;
}

KvPool::KeptList::const_iterator KvPool::find(const SessionName& wanted) const {
  return std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return names_session(wanted, kept.name) && wanted.level == kept.name.level;
  });
}

// The longest unused text of the group that has most.
KvPool::KeptList::iterator KvPool::next_victim() {
  std::map<std::string_view, std::size_t> count;
  for (const Kept& kept : kept_) ++count[kept.name.owner.group];
  return std::max_element(kept_.begin(), kept_.end(), [&](const Kept& a, const Kept& b) {
    return count[a.name.owner.group] < count[b.name.owner.group];
  });
}

}  // namespace outrider
