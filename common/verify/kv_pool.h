// The memory for keys and values: what sessions hold, and the caches that no session uses. A
// finished or broken session's is kept for the stream that replaces it (a reconnect, the next turn
// of a chat). Only who knows the session's id or key, and is of the same tenant, gets it, so no
// timing tells one edge what another has asked.
//
// Memory is counted by the slots that were ever used, in pages, as the models take it; a cache has
// room for the whole context, but most of that is never touched.
//
// Thread rule: owned by the compute thread. Ownership: caches are handed in and out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/model.h"
#include "common/verify/scheduler_types.h"

namespace outrider {

// By what a session is found again.
struct SessionName {
  std::string id;
  std::string key;  // empty: none
  StreamOwner owner = {};
};

// True if `wanted` names the session `session` by its id or key, and the tenant is the same.
bool names_session(const SessionName& wanted, const SessionName& session);

class KvPool final {
 public:
  KvPool(Model& model, const KvPoolOptions& options);

  struct Lease {
    std::unique_ptr<KvCache> cache;
    Position cached = 0;      // positions of the prefix that it holds; < prefix.size()
    std::int32_t slots = 0;   // counted for it; it may use no more
    std::string tenant = {};  // whose share it takes
  };

  // The cache of the session that `wanted` names by id or key, cut to the longest common prefix, or
  // a fresh one if there is none. It may use `slots`. RESOURCE_EXHAUSTED, in words for the edge, if
  // memory or the tenant's share of it is short though nothing unused is left.
  Result<Lease> take(const SessionName& wanted, std::span<const TokenId> prefix,
                     std::int32_t slots);
  // Lets the cache use so many slots. RESOURCE_EXHAUSTED as take().
  [[nodiscard]] Status grow(Lease& lease, std::int32_t slots);
  // Of the last time that memory was short, what edges are not told.
  const std::string& why_short() const { return why_short_; }

  // Keeps what a session leaves behind. text: the session's, of which the cache holds the first
  // committed() tokens.
  void keep(SessionName name, Lease lease, std::span<const TokenId> text, TimePoint now = {});
  // The memory of a cache that is not kept.
  void release(Lease lease);

  // The kept text of a session, to look at; null: none.
  const std::vector<TokenId>* text_of(const SessionName& wanted) const;

  // Drops what has waited for too long.
  void expire(TimePoint now);
  // When expire() has something to do.
  std::optional<TimePoint> next_expiry() const;

  std::size_t size() const { return kept_.size(); }
  std::int64_t used_bytes() const { return used_bytes_; }

 private:
  struct Kept {
    SessionName name;
    Lease lease;
    std::vector<TokenId> text;
    TimePoint since;
  };
  using KeptList = std::list<Kept>;

  std::int64_t bytes_of(std::int32_t slots) const;
  Status make_room(const std::string& tenant, std::int64_t bytes);
  Status make_room_in_share(const std::string& tenant, std::int64_t bytes);
  Status is_short(std::string why);
  void count(const std::string& tenant, std::int64_t bytes);
  KeptList::const_iterator find(const SessionName& wanted) const;
  KeptList::iterator next_victim();
  void drop(KeptList::iterator at);

  Model& model_;
  const KvPoolOptions options_;
  std::int64_t used_bytes_ = 0;  // by sessions and by what is kept
  std::map<std::string, std::int64_t> used_of_tenant_;
  std::string why_short_;
  KeptList kept_;  // longest unused first
};

}  // namespace outrider
