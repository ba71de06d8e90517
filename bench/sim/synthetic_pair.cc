// SPDX-License-Identifier: Apache-2.0
#include "bench/sim/synthetic_pair.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace outrider {
namespace {

// What the target gives its likeliest tokens, in falling order; all others 0.
constexpr float kRanked[] = {9, 6, 5, 4, 3};
// How sure the draft is of what the target says too and of what not, give or take the spread.
constexpr double kSureRight = 0.8, kSureWrong = 0.5, kSureSpread = 0.18;
// Where the draft's first choice is wrong, its second one is right so often.
constexpr double kSecondIsRight = 0.4;

std::uint64_t hashed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

double share_of(std::uint64_t text, std::uint64_t what) {
  return static_cast<double>(hashed(text ^ hashed(what)) >> 11) * 0x1p-53;
}

// Slots, and of each a hash of its text.
class TextCache final : public KvCache {
 public:
  explicit TextCache(std::int32_t capacity)
      : KvCache(capacity), texts_(static_cast<std::size_t>(capacity)) {}

  std::uint64_t note(Slot slot, TokenId token) {
    std::uint64_t before = 0;
    if (const Position position = slots().position(slot); position > 0) {
      Slot parent = slots().parent(slot);
      if (parent == kRootSlot) parent = slots().committed_slot(position - 1);
      before = texts_[static_cast<std::size_t>(parent)];
    }
    return texts_[static_cast<std::size_t>(slot)] =
               hashed(before ^ hashed(static_cast<std::uint64_t>(token) + 1));
  }

 private:
  std::vector<std::uint64_t> texts_;  // [slot]
};

}  // namespace

SyntheticModel::SyntheticModel(const std::string& name, double agreement, const ModelInfo& like)
    : agreement_(agreement), info_(like) {
  info_.name = name;
  info_.architecture = "synthetic";
  info_.fingerprint = name;
  info_.arithmetic_id = name;
}

Result<std::unique_ptr<KvCache>> SyntheticModel::new_cache(std::int32_t capacity) {
  return std::unique_ptr<KvCache>(std::make_unique<TextCache>(capacity));
}

Status SyntheticModel::forward(std::span<const Row> rows, PassOutput& out) {
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  out.vocab_size = info_.vocab_size;
  const auto vocab = static_cast<std::size_t>(info_.vocab_size);
  out.logits.clear();
  for (const Row& row : rows) {
    const std::uint64_t text = static_cast<TextCache*>(row.cache)->note(row.slot, row.token);
    if (!row.wants_logits) continue;
    out.logits.resize(out.logits.size() + vocab);
    write(text, std::span(out.logits).last(vocab));
  }
  return {};
}

// None that ends the answer.
std::size_t SyntheticModel::drawn_token(std::uint64_t text, std::uint64_t what) const {
  for (std::uint64_t again = 0;; ++again) {
    const auto token = static_cast<TokenId>(share_of(text, what + 1000 * again) * info_.vocab_size);
    if (std::ranges::find(info_.stop_ids, token) == info_.stop_ids.end()) {
      return static_cast<std::size_t>(token);
    }
  }
}

void SyntheticModel::write(std::uint64_t text, std::span<float> logits) const {
  const std::size_t targets = drawn_token(text, 0);
  if (agreement_ >= 1) {
    for (std::size_t rank = std::size(kRanked); rank-- > 0;) {
      logits[drawn_token(text, rank)] = kRanked[rank];
    }
    return;
  }
  const bool right = share_of(text, 100) < agreement_;
  const double sure =
      (right ? kSureRight : kSureWrong) + (2 * share_of(text, 101) - 1) * kSureSpread;
  const auto first =
      static_cast<float>(std::log(sure / (1 - sure) * static_cast<double>(info_.vocab_size - 1)));
  const bool second_is_right = !right && share_of(text, 102) < kSecondIsRight;
  logits[drawn_token(text, 200)] = first / 2;
  if (second_is_right) logits[targets] = 0.8f * first;
  logits[right ? targets : drawn_token(text, 201)] = first;
}

}  // namespace outrider
