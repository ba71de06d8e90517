// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/memory/tenant_texts.h"

#include <algorithm>
#include <iterator>

namespace outrider {
namespace {

// A tenant with less takes memory as if it had so many.
constexpr std::size_t kMinCounted = 4096;
// A single token that came before says little.
constexpr std::size_t kMinMatch = 2;

std::size_t counted(const MatchFinder& texts) {
  return std::max(texts.size(), kMinCounted);
}

}  // namespace

TenantTexts::AllLeft::iterator TenantTexts::find(const std::string& tenant, TimePoint now) {
  const auto at = by_tenant_.find(tenant);
  if (at == by_tenant_.end()) return left_.end();
  at->second->used = std::max(at->second->used, now);
  left_.splice(left_.end(), left_, at->second);
  return at->second;
}

const MatchFinder* TenantTexts::of(const std::string& tenant, TimePoint now) {
  const auto at = find(tenant, now);
  return at == left_.end() ? nullptr : &at->texts;
}

void TenantTexts::remember(const std::string& tenant, std::span<const TokenId> text,
                           TimePoint now) {
  auto at = find(tenant, now);
  if (at == left_.end()) {
    left_.push_back({tenant, MatchFinder(bounds_.of_one, kMinMatch), now});
    at = std::prev(left_.end());
    by_tenant_.emplace(tenant, at);
  } else {
    tokens_ -= counted(at->texts);
  }
  for (const TokenId token : text.last(std::min(text.size(), bounds_.of_one))) {
    at->texts.append(token);
  }
  at->texts.end_text();
  tokens_ += counted(at->texts);
  while (tokens_ > bounds_.of_all) forget_first();
}

std::size_t TenantTexts::tokens() const {
  std::size_t tokens = 0;
  for (const Left& one : left_) tokens += one.texts.size();
  return tokens;
}

void TenantTexts::forget_first() {
  tokens_ -= counted(left_.front().texts);
  by_tenant_.erase(left_.front().tenant);
  left_.pop_front();
}

void TenantTexts::expire(TimePoint now) {
  while (const auto at = next_expiry()) {
    if (*at > now) return;
    forget_first();
  }
}

std::optional<TimePoint> TenantTexts::next_expiry() const {
  if (bounds_.kept_for <= Duration{0} || left_.empty()) return std::nullopt;
  return left_.front().used + bounds_.kept_for;
}

}  // namespace outrider
