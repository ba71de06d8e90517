// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/kv_pages.h"

#include <string>

namespace outrider {

KvPages::KvPages(const void* model, std::int32_t count) : model_(model) {
  OUTRIDER_CHECK(count > 0 && count <= kMost);
  holders_.resize(static_cast<std::size_t>(count));
  owners_.resize(holders_.size());
  free_.resize(holders_.size());
  for (KvPage page = 0; page < count; ++page) free_[index(page)] = count - 1 - page;
}

std::int32_t KvPages::used_by(std::int32_t owner) const {
  const std::size_t at = index(owner);
  return at < used_by_.size() ? used_by_[at] : 0;
}

Result<KvPage> KvPages::take(std::int32_t owner) {
  if (free_.empty()) {
    return resource_exhausted("all " + std::to_string(count()) +
                              " pages of keys and values are in use");
  }
  const KvPage page = free_.back();
  free_.pop_back();
  holders_[index(page)] = 1;
  owners_[index(page)] = owner;
  if (used_by_.size() <= index(owner)) used_by_.resize(index(owner) + 1);
  ++used_by_[index(owner)];
  return page;
}

void KvPages::give_back(KvPage page) {
  std::int32_t& holders = holders_.at(index(page));
  OUTRIDER_CHECK(holders > 0);
  if (--holders > 0) return;
  --used_by_[index(owners_[index(page)])];
  free_.push_back(page);
}

}  // namespace outrider
