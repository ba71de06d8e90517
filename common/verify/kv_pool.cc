// SPDX-License-Identifier: Apache-2.0
#include "common/verify/kv_pool.h"

#include <algorithm>
#include <utility>

namespace outrider {

KvPool::KvPool(Model& model, std::int32_t capacity, std::uint32_t kept)
    : model_(model), capacity_(capacity), max_kept_(kept) {}

Result<KvPool::Taken> KvPool::take(const std::string& session_id, std::span<const TokenId> prefix) {
  OUTRIDER_CHECK(!prefix.empty());
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Kept& kept) { return kept.session_id == session_id; });
  if (found != kept_.end()) {
    // The last token of the prefix is always computed: its logits choose the first of the answer.
    const auto usable = prefix.first(prefix.size() - 1);
    const auto common =
        std::mismatch(usable.begin(), usable.end(), found->text.begin(), found->text.end()).first -
        usable.begin();
    Taken taken{.cache = std::move(found->cache), .cached = common};
    kept_.erase(found);
    taken.cache->slots().truncate(taken.cached);
    return taken;
  }
  while (true) {
    Result<std::unique_ptr<KvCache>> cache = model_.new_cache(capacity_);
    if (cache.ok()) return Taken{.cache = *std::move(cache), .cached = 0};
    if (kept_.empty()) return cache.status();
    kept_.pop_front();  // memory is short: what nobody uses goes first
  }
}

void KvPool::keep(std::string session_id, std::unique_ptr<KvCache> cache,
                  std::span<const TokenId> text) {
  OUTRIDER_CHECK(cache->slots().committed() == static_cast<Position>(text.size()));
  kept_.push_back({std::move(session_id), std::move(cache), {text.begin(), text.end()}});
  if (kept_.size() > max_kept_) kept_.pop_front();
}

}  // namespace outrider
