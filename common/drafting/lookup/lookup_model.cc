// SPDX-License-Identifier: Apache-2.0
#include "common/drafting/lookup/lookup_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/model/cell_values.h"
#include "common/model/row_check.h"

namespace outrider {
namespace {

using TokenPages = CellValues<TokenId>;

constexpr std::size_t kMaxGuesses = 4;
// What is assumed of a match before there are cases: that so many of such were right.
constexpr double kAssumedCases = 8;
constexpr std::array<double, 8> kAssumed = {0.1, 0.3, 0.45, 0.55, 0.65, 0.75, 0.85, 0.92};
// Of one with which others disagree.
constexpr double kAssumedContested = 0.6;
// Then the older half of the cases is forgotten.
constexpr double kMaxCases = 256;
// All guesses together: something else may always come.
constexpr double kMaxChance = 0.98;

// The last tokens on the row's path, its own last.
std::vector<TokenId> tail_of(const Row& row) {
  auto& pages = static_cast<TokenPages&>(row.cache->pages());
  const KvSlots& slots = row.cache->slots();
  std::vector<TokenId> tail;
  Slot slot = row.slot;
  Position position = slots.position(slot);
  while (true) {
    tail.push_back(pages.at(slots.cell(slot)));
    if (position == 0 || tail.size() == MatchFinder::kMaxLength) break;
    --position;
    const Slot parent = slots.is_committed(slot) ? kRootSlot : slots.parent(slot);
    // A committed row's slot is its position.
    slot = parent == kRootSlot ? static_cast<Slot>(position) : parent;
  }
  std::ranges::reverse(tail);
  return tail;
}

}  // namespace

LookupModel::LookupModel(const LookupOptions& options) : finder_(options.max_tokens) {
  info_.name = "look-up";
  info_.architecture = "look-up";
  info_.fingerprint = info_.arithmetic_id = "look-up";
  info_.dtype = "f32";
  info_.vocab_size = options.vocab_size;
  info_.max_positions = options.max_positions;
}

void LookupModel::remember(std::span<const TokenId> text) {
  for (const TokenId token : text) finder_.append(token);
  finder_.end_text();
}

Result<std::shared_ptr<KvPages>> LookupModel::new_pages(std::int32_t count) {
  return std::shared_ptr<KvPages>(std::make_shared<TokenPages>(this, count));
}

// A token became text: what would have been guessed for it shows what such guesses are worth.
void LookupModel::take(TokenId token) {
  const auto tail = std::span(text_).last(std::min(text_.size(), MatchFinder::kMaxLength));
  const std::vector<MatchFinder::Match> matches = finder_.find(tail, 2);
  if (!matches.empty()) {
    Record& seen = record(kind_of(matches));
    seen.cases += 1;
    seen.right += matches.front().next == token ? 1 : 0;
    if (seen.cases >= kMaxCases) seen = {seen.cases / 2, seen.right / 2};
  }
  finder_.append(token);
  text_.push_back(token);
}

// What was committed since the last pass. A sequence that is shorter than it was, or another, is a
// new text.
void LookupModel::take_text(const KvCache& cache) {
  auto& pages = static_cast<TokenPages&>(cache.pages());
  const auto end = static_cast<std::size_t>(cache.slots().committed());
  const auto token_at = [&](std::size_t position) {
    return pages.at(cache.slots().cell(static_cast<Slot>(position)));
  };
  if (end < text_.size()) {
    text_.resize(end);
    finder_.end_text();
  }
  for (std::size_t at = text_.size(); at < end; ++at) take(token_at(at));
}

Status LookupModel::forward(std::span<const Row> rows, PassOutput& out) {
  OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
  out.vocab_size = info_.vocab_size;
  out.row_logits = nullptr;
  out.logits.clear();
  out.places.clear();
  if (!rows.empty()) take_text(*rows.front().cache);
  for (const Row& row : rows) {
    static_cast<TokenPages&>(row.cache->pages()).of(row) = row.token;
    if (!row.wants_logits) {
      // Of text that its owner commits next.
      if (row.cache->slots().position(row.slot) == static_cast<Position>(text_.size())) {
        take(row.token);
      }
      continue;
    }
    const std::vector<Guessed> guessed = guesses(finder_.find(tail_of(row), kMaxGuesses));
    const auto place =
        static_cast<std::int32_t>(out.logits.size() / static_cast<std::size_t>(info_.vocab_size));
    out.places.push_back(guessed.empty() ? -1 : place);
    if (!guessed.empty()) write_logits(guessed, out);
  }
  return {};
}

LookupModel::Kind LookupModel::kind_of(std::span<const MatchFinder::Match> matches) {
  const std::size_t length = matches.front().length;
  const std::size_t kind =
      length <= 4
          ? length - 1
          : std::min(kLengths - 1, static_cast<std::size_t>(std::bit_width(length - 3)) + 2);
  return {kind, matches.size() > 1 && matches[1].length + 1 >= length};
}

std::vector<LookupModel::Guessed> LookupModel::guesses(
    std::span<const MatchFinder::Match> matches) {
  std::vector<Guessed> guesses;
  double left = kMaxChance;
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (matches[i].next >= info_.vocab_size) continue;
    Kind kind = kind_of(matches.subspan(i));
    kind.contested |= i > 0;
    const double assumed = kAssumed[kind.length] * (kind.contested ? kAssumedContested : 1);
    const Record& seen = record(kind);
    const double right = (kAssumedCases * assumed + seen.right) / (kAssumedCases + seen.cases);
    const double most = guesses.empty() ? 1 : guesses.back().chance;
    guesses.push_back({matches[i].next, std::min(most, left * right)});
    left -= guesses.back().chance;
  }
  return guesses;
}

void LookupModel::write_logits(std::span<const Guessed> guesses, PassOutput& out) const {
  const auto vocab = static_cast<std::size_t>(info_.vocab_size);
  double rest = 1;
  for (const Guessed& guess : guesses) rest -= guess.chance;
  const double others = std::max<double>(1, static_cast<double>(vocab - guesses.size()));
  const std::size_t begin = out.logits.size();
  out.logits.resize(begin + vocab, static_cast<float>(std::log(rest / others)));
  for (const Guessed& guess : guesses) {
    out.logits[begin + static_cast<std::size_t>(guess.token)] =
        static_cast<float>(std::log(guess.chance));
  }
}

}  // namespace outrider
