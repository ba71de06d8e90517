// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/lookup/look_up.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace outrider {
namespace {

// The last tokens of a prompt by which it learns.
constexpr std::size_t kTeaching = 2048;
// The assumption about a match before there are cases: the share of such matches that were right.
constexpr double kAssumedCases = 8;
constexpr std::array<double, 8> kAssumed = {0.1, 0.3, 0.45, 0.55, 0.65, 0.75, 0.85, 0.92};
// The same for a match with which others disagree.
constexpr double kAssumedContested = 0.6;
// Then the older half of the cases is forgotten.
constexpr double kMaxCases = 256;
// All guesses together: something else may always come.
constexpr double kMaxChance = 0.98;

}  // namespace

void LookUp::remember(std::span<const TokenId> text) {
  for (const TokenId token : text) finder_.append(token);
  finder_.end_text();
}

void LookUp::begin(std::span<const TokenId> text) {
  finder_.end_text();
  const std::size_t before = text.size() - std::min(text.size(), kTeaching);
  text_.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(before));
  for (const TokenId token : text_) finder_.append(token);
  for (const TokenId token : text.subspan(before)) take(token);
}

std::vector<MatchFinder::Match> LookUp::find(std::span<const TokenId> tail, std::size_t most,
                                             const MatchFinder* shared) const {
  std::vector<MatchFinder::Match> found = finder_.find(tail, most);
  if (shared != nullptr) found = shared->find(tail, most, std::move(found));
  return found;
}

void LookUp::take(TokenId token, const MatchFinder* shared) {
  const auto tail = std::span(text_).last(std::min(text_.size(), MatchFinder::kMaxLength));
  const std::vector<MatchFinder::Match> found = find(tail, 2, shared);
  if (!found.empty()) {
    const Kind kind = kind_of(found);
    Record& seen = records_[kind.length][kind.contested ? 1 : 0];
    seen.cases += 1;
    seen.right += found.front().next == token ? 1 : 0;
    if (seen.cases >= kMaxCases) seen = {seen.cases / 2, seen.right / 2};
  }
  finder_.append(token);
  text_.push_back(token);
}

void LookUp::cut(std::size_t length) {
  text_.resize(length);
  finder_.end_text();
}

LookUp::Kind LookUp::kind_of(std::span<const MatchFinder::Match> matches) {
  const std::size_t length = matches.front().length;
  const std::size_t kind =
      length <= 4
          ? length - 1
          : std::min(kLengths - 1, static_cast<std::size_t>(std::bit_width(length - 3)) + 2);
  return {kind, matches.size() > 1 && matches[1].length + 1 >= length};
}

std::vector<Guess> LookUp::guesses(std::span<const TokenId> tail, std::size_t most,
                                   const MatchFinder* shared) const {
  const std::vector<MatchFinder::Match> found = find(tail, most, shared);
  std::vector<Guess> guesses;
  double left = kMaxChance;
  for (std::size_t i = 0; i < found.size(); ++i) {
    Kind kind = kind_of(std::span(found).subspan(i));
    kind.contested |= i > 0;
    const double assumed = kAssumed[kind.length] * (kind.contested ? kAssumedContested : 1);
    const Record& seen = record(kind);
    const double right = (kAssumedCases * assumed + seen.right) / (kAssumedCases + seen.cases);
    const double at_most = guesses.empty() ? 1.0 : double{guesses.back().confidence};
    guesses.push_back({found[i].next, static_cast<float>(std::min(at_most, left * right))});
    left -= double{guesses.back().confidence};
  }
  return guesses;
}

}  // namespace outrider
