// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/lookup/match_finder.h"

#include <algorithm>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr TokenId kBorder = -1;
// So many places with the same hash are looked at.
constexpr int kMaxPlaces = 64;
constexpr std::size_t kMinBuckets = 1 << 10;
constexpr std::size_t kMaxBuckets = 1 << 18;

}  // namespace

MatchFinder::MatchFinder(std::size_t max_tokens, std::size_t shortest)
    : max_tokens_(max_tokens), finds_single_(shortest == 1), latest_(kMinBuckets, kNowhere) {
  OUTRIDER_CHECK(shortest == 1 || shortest == 2);
  OUTRIDER_CHECK(max_tokens >= 2 && max_tokens < (std::size_t{1} << 31));
}

std::size_t MatchFinder::bucket_of(TokenId before, TokenId last) const {
  const std::uint64_t both =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(before)) << 32) |
      static_cast<std::uint32_t>(last);
  return ((both * 0x9e3779b97f4a7c15u) >> 32) & (latest_.size() - 1);
}

void MatchFinder::append(TokenId token) {
  OUTRIDER_CHECK(token >= 0);
  push(token);
}

void MatchFinder::end_text() {
  if (!tokens_.empty() && tokens_.back() != kBorder) push(kBorder);
}

void MatchFinder::push(TokenId token) {
  if (tokens_.size() == max_tokens_) {  // the older half is forgotten
    const auto half = static_cast<std::ptrdiff_t>(tokens_.size() / 2);
    tokens_.erase(tokens_.begin(), tokens_.begin() + half);
    link_all(latest_.size());
  } else if (tokens_.size() == latest_.size() && latest_.size() < kMaxBuckets) {
    link_all(2 * latest_.size());
  }
  tokens_.push_back(token);
  earlier_.push_back(kNowhere);
  link(tokens_.size() - 1);
}

void MatchFinder::link(std::size_t place) {
  const TokenId token = tokens_[place];
  if (token == kBorder) return;
  if (finds_single_) {
    const auto at = static_cast<std::size_t>(token);
    if (at >= single_.size()) single_.resize(at + 1, kNowhere);
    single_[at] = static_cast<std::int32_t>(place);
  }
  if (place == 0 || tokens_[place - 1] == kBorder) return;
  std::int32_t& latest = latest_[bucket_of(tokens_[place - 1], token)];
  earlier_[place] = latest;
  latest = static_cast<std::int32_t>(place);
}

void MatchFinder::link_all(std::size_t buckets) {
  latest_.assign(buckets, kNowhere);
  std::ranges::fill(single_, kNowhere);
  earlier_.assign(tokens_.size(), kNowhere);
  for (std::size_t place = 0; place < tokens_.size(); ++place) link(place);
}

std::size_t MatchFinder::length_at(std::size_t place, std::span<const TokenId> tail) const {
  const std::size_t most = std::min({tail.size(), place + 1, kMaxLength});
  std::size_t length = 0;
  while (length < most && tokens_[place - length] == tail[tail.size() - 1 - length]) ++length;
  return length;
}

std::vector<MatchFinder::Match> MatchFinder::find(std::span<const TokenId> tail, std::size_t most,
                                                  std::vector<Match> found) const {
  if (tail.empty() || tail.back() < 0) return found;
  const auto add = [&](std::int32_t place) {
    const auto next = static_cast<std::size_t>(place) + 1;
    if (next >= tokens_.size() || tokens_[next] == kBorder) return;
    const Match match{tokens_[next], length_at(next - 1, tail)};
    if (match.length == 0) return;
    const auto same = std::ranges::find(found, match.next, &Match::next);
    if (same == found.end()) {
      found.push_back(match);
    } else {
      same->length = std::max(same->length, match.length);
    }
  };
  if (tail.size() >= 2) {
    std::int32_t place = latest_[bucket_of(tail[tail.size() - 2], tail.back())];
    for (int looked = 0; place != kNowhere && looked < kMaxPlaces; ++looked) {
      add(place);
      place = earlier_[static_cast<std::size_t>(place)];
    }
    // Another pair of tokens may have the same hash.
    std::erase_if(found, [](const Match& match) { return match.length < 2; });
  }
  const auto last = static_cast<std::size_t>(tail.back());
  if (found.empty() && last < single_.size() && single_[last] != kNowhere) add(single_[last]);
  std::ranges::stable_sort(found, std::greater{}, &Match::length);
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace outrider
