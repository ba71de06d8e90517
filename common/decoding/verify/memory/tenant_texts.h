// Texts of sessions that are over, in which later sessions of the same tenant look up what may
// follow (look_up_draft.h). Nobody's are looked up in for another tenant: neither a guess nor the
// time that one takes reveals what somebody else has asked.
//
// The older half is forgotten of a tenant with too many tokens; where all have too many together,
// all tokens of the tenant that was away for longest. At the bounds below they take at most 3 MiB
// of memory for a tenant and 48 MiB in all.
//
// Thread rule: owned by the scheduler's thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/decoding/drafting/lookup/match_finder.h"

namespace outrider {

struct TenantTextBounds {
  std::size_t of_one = std::size_t{1} << 18;  // tokens of one tenant
  std::size_t of_all = std::size_t{1} << 21;  // of all tenants, each counting at least 4,096
  Duration kept_for{0};                       // what no session used for so long goes; 0: never
};

class TenantTexts final {
 public:
  // of_all: at least of_one and 4,096.
  explicit TenantTexts(const TenantTextBounds& bounds) : bounds_(bounds) {}
  TenantTexts(const TenantTexts&) = delete;
  TenantTexts& operator=(const TenantTexts&) = delete;

  // The texts that the tenant's sessions have left, to look up in before the next call; null if
  // there are none. It is now the last to go.
  const MatchFinder* of(const std::string& tenant, TimePoint now);
  // A session of the tenant leaves this text.
  void remember(const std::string& tenant, std::span<const TokenId> text, TimePoint now);

  // The tokens of all texts that are kept.
  std::size_t tokens() const;

  // Drops what was unused for too long.
  void expire(TimePoint now);
  // When expire() has something to do.
  std::optional<TimePoint> next_expiry() const;

 private:
  struct Left {
    std::string tenant;
    MatchFinder texts;
    TimePoint used;
  };
  using AllLeft = std::list<Left>;

  AllLeft::iterator find(const std::string& tenant, TimePoint now);
  void forget_first();

  const TenantTextBounds bounds_;
  AllLeft left_;  // longest unused first
  std::map<std::string, AllLeft::iterator> by_tenant_;
  std::size_t tokens_ = 0;  // of all, as they count
};

}  // namespace outrider
