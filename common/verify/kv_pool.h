// The KV caches that no session uses: a finished or broken session's is kept for the stream that
// replaces it (a reconnect, the next turn of a chat). Only who knows the session's id gets it, so
// no timing tells one edge what another has asked.
//
// Thread rule: owned by the compute thread. Ownership: caches are handed in and out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/model.h"

namespace outrider {

class KvPool final {
 public:
  // capacity: slots of each cache. kept: the most unused caches; the longest unused go first.
  KvPool(Model& model, std::int32_t capacity, std::uint32_t kept);

  struct Taken {
    std::unique_ptr<KvCache> cache;
    Position cached = 0;  // positions of the prefix that it holds; < prefix.size()
  };

  // The cache of the session named `session_id`, cut to the longest common prefix, or a fresh one
  // if there is none of that name. RESOURCE_EXHAUSTED if memory is short with no cache kept.
  Result<Taken> take(const std::string& session_id, std::span<const TokenId> prefix);

  // text: the tokens of the cache's committed positions.
  void keep(std::string session_id, std::unique_ptr<KvCache> cache, std::span<const TokenId> text);

  std::size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    std::string session_id;
    std::unique_ptr<KvCache> cache;
    std::vector<TokenId> text;
  };

  Model& model_;
  const std::int32_t capacity_;
  const std::size_t max_kept_;
  std::list<Kept> kept_;  // longest unused first
};

}  // namespace outrider
