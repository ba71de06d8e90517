// The memory for keys and values: one pool of pages for what sessions hold and for texts that no
// session uses.
//
// A session begins with the pages of the longest beginning of its prompt that its tenant has there
// (kv_prefixes.h), and adds each page that it fills. So turns of a chat, reconnects, and prompts
// that begin alike compute a text once. What no session uses goes when memory is short: first that
// of the group that has most, so that nobody flushes another's.
//
// Memory is promised when a session is admitted and taken as its text grows.
//
// Thread rule: owned by the compute thread. Ownership: caches are handed in and out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/verify/memory/kv_prefixes.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/engine/model/model.h"

namespace outrider {

// By what a session is found again.
struct SessionName {
  std::string id;
  std::string key;  // empty: none
  StreamOwner owner = {};
  std::size_t level = 0;  // of an elastic model, which computes it; 0: the full one
};

// The part of this memory, and of each tenant's share of it, for the caches of `model` where the
// same sessions have caches of `other` too: so that both hold as many positions.
KvPoolOptions part_of(KvPoolOptions both, const ModelInfo& model, const ModelInfo& other);

// True if `wanted` names the session `session` by its id or key, and the tenant is the same. Its
// level may be another one, which reads the text anew.
bool names_session(const SessionName& wanted, const SessionName& session);

class KvPool final {
 public:
  // sessions: as many as may be open at once, for the pool's size where options.max_bytes is 0.
  KvPool(Model& model, const KvPoolOptions& options, std::uint32_t sessions);

  struct Lease {
    std::unique_ptr<KvCache> cache;  // null: nothing is leased
    Position cached = 0;             // positions of the prefix that it began with; < prefix.size()
    std::string tenant = {};         // whose share it takes
    std::string root = {};           // under which its text is kept
    std::int32_t owner = 0;          // its group's pages
    std::int32_t promised = 0;       // pages that it may still take
    KvPrefixes::Node* shared = nullptr;  // the last of its pages that others may share
    std::size_t num_shared = 0;          // how many these are
  };

  // A cache that holds the longest kept beginning of the prefix, its last token excepted. Promises
  // memory for `rows` in all. RESOURCE_EXHAUSTED, in words for the edge, if memory or the tenant's
  // share of it is short though nothing unused is left.
  Result<Lease> take(const SessionName& wanted, std::span<const TokenId> prefix, std::int32_t rows,
                     TimePoint now = {});
  // Adds the positions of the text that others of the tenant have computed since then. The cache
  // has no uncommitted rows. Returns how many positions it holds now.
  Position extend(Lease& lease, std::span<const TokenId> text, TimePoint now);
  // Takes the pages for the next rows, as KvSlots::reserve(). RESOURCE_EXHAUSTED as take().
  [[nodiscard]] Status reserve(Lease& lease, std::int32_t rows, std::int32_t branching);
  // The reason of the last time that memory was short; edges do not get it.
  const std::string& why_short() const { return why_short_; }
  // It was the tenant's share that was short: nobody else's memory would help.
  bool was_share_short() const { return share_short_; }
  // The session alone needs more than there is, or there is none: nobody's end would help.
  bool was_too_large() const { return too_large_; }

  // The cache has more of the session's text now: full pages may be shared.
  void share(Lease& lease, std::span<const TokenId> text, TimePoint now);
  // Keeps what a session leaves behind. text: the session's, of which the cache holds the first
  // committed() tokens.
  void keep(SessionName name, Lease lease, std::span<const TokenId> text, TimePoint now = {});
  // Keeps the keys and values only, for as long as there is room.
  void stow(Lease lease, std::span<const TokenId> text, TimePoint now);
  // The memory of a cache that is not kept.
  void release(Lease lease) {
    const auto owner = static_cast<std::size_t>(lease.owner);
    promised_.at(owner) -= lease.promised;
    --leases_.at(owner);
  }

  // The kept text of a session, to look at; null: none.
  const std::vector<TokenId>* text_of(const SessionName& wanted) const;

  // Drops what has waited for too long.
  void expire(TimePoint now);
  // When expire() has something to do.
  std::optional<TimePoint> next_expiry() const;

  // From the first lease on.
  bool is_allocated() const { return memory_.has_value(); }
  // Texts that are kept of sessions that are over.
  std::size_t kept_texts() const { return kept_.size(); }
  std::int64_t used_bytes() const;
  // The bytes that used_bytes() may reach; 0 before the first lease.
  std::int64_t bound_bytes() const;

 private:
  struct Kept {
    SessionName name;
    std::string root;
    std::vector<TokenId> text;
    TimePoint since;
  };
  using KeptList = std::list<Kept>;
  struct Memory {
    explicit Memory(std::shared_ptr<KvPages> all) : pages(std::move(all)), prefixes(*pages) {}
    std::shared_ptr<KvPages> pages;
    KvPrefixes prefixes;
  };

  Status allocate();
  std::int64_t bytes_per_page() const;
  void begin(Lease& lease, const KvPrefixes::Found& found);
  // The longest beginning of the text that is kept and leaves room for all `pages` of the session.
  KvPrefixes::Found find_beginning(const Lease& lease, std::span<const TokenId> text,
                                   std::int64_t pages, TimePoint now);
  // Free pages that were not promised to other sessions.
  std::int32_t free_beside(const Lease& lease) const;
  Status make_room(const Lease& lease, std::int32_t pages);
  Status make_room_in_share(const Lease& lease, std::int32_t pages);
  Status check_size(const Lease& lease, std::int32_t pages);
  bool drop_unused();
  std::string root_of(const SessionName& wanted);
  std::int32_t owner_of(const std::string& group);
  KeptList::const_iterator find(const SessionName& wanted) const;
  KeptList::iterator next_victim();

  Model& model_;
  const KvPoolOptions options_;
  const std::int64_t most_pages_;       // where max_bytes is 0
  std::optional<Memory> memory_;        // from the first session on
  std::vector<std::string> groups_;     // by owner
  std::vector<std::int32_t> leases_;    // by owner
  std::vector<std::int32_t> promised_;  // pages that sessions may still take, by owner
  std::uint64_t unshared_ = 0;          // roots that only one session and its successors use
  std::string why_short_;
  bool share_short_ = false;
  bool too_large_ = false;
  KeptList kept_;  // longest unused first
};

}  // namespace outrider
