// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/lookup/lookup_model.h"

#include <algorithm>
#include <cmath>

#include "common/engine/model/cell_values.h"
#include "common/engine/model/row_check.h"

namespace outrider {
namespace {

using TokenPages = CellValues<TokenId>;

constexpr std::size_t kMaxGuesses = 4;

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

LookupModel::LookupModel(const LookupOptions& options) : look_up_(options.max_tokens) {
  info_.name = "look-up";
  info_.architecture = "look-up";
  info_.fingerprint = info_.arithmetic_id = "look-up";
  info_.dtype = "f32";
  info_.vocab_size = options.vocab_size;
  info_.max_positions = options.max_positions;
}

Result<std::shared_ptr<KvPages>> LookupModel::new_pages(std::int32_t count) {
  return std::shared_ptr<KvPages>(std::make_shared<TokenPages>(this, count));
}

// Takes the tokens that were committed since the last pass. A sequence that is shorter than it was,
// or another, is a new text.
void LookupModel::take_text(const KvCache& cache) {
  auto& pages = static_cast<TokenPages&>(cache.pages());
  const auto end = static_cast<std::size_t>(cache.slots().committed());
  const auto token_at = [&](std::size_t position) {
    return pages.at(cache.slots().cell(static_cast<Slot>(position)));
  };
  if (end < look_up_.text().size()) look_up_.cut(end);
  for (std::size_t at = look_up_.text().size(); at < end; ++at) look_up_.take(token_at(at));
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
      // This token belongs to text that its owner commits next.
      if (row.cache->slots().position(row.slot) == static_cast<Position>(look_up_.text().size())) {
        look_up_.take(row.token);
      }
      continue;
    }
    std::vector<Guess> guessed = look_up_.guesses(tail_of(row), kMaxGuesses);
    // A text that is remembered may have been of another vocabulary.
    std::erase_if(guessed, [&](const Guess& guess) { return guess.token >= info_.vocab_size; });
    const auto place =
        static_cast<std::int32_t>(out.logits.size() / static_cast<std::size_t>(info_.vocab_size));
    out.places.push_back(guessed.empty() ? -1 : place);
    if (!guessed.empty()) write_logits(guessed, out);
  }
  return {};
}

void LookupModel::write_logits(std::span<const Guess> guesses, PassOutput& out) const {
  const auto vocab = static_cast<std::size_t>(info_.vocab_size);
  double rest = 1;
  for (const Guess& guess : guesses) rest -= double{guess.confidence};
  const double others = std::max<double>(1, static_cast<double>(vocab - guesses.size()));
  const std::size_t begin = out.logits.size();
  out.logits.resize(begin + vocab, static_cast<float>(std::log(rest / others)));
  for (const Guess& guess : guesses) {
    out.logits[begin + static_cast<std::size_t>(guess.token)] = std::log(guess.confidence);
  }
}

}  // namespace outrider
