// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

constexpr TokenId kDead = -1;

std::string fallback_token(int byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto b = static_cast<std::size_t>(byte);
  return {'<', '0', 'x', kDigits[b >> 4], kDigits[b & 15], '>'};
}

std::uint64_t key_of(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// SplitMix64's finaliser: spreads neighbouring ids over the whole table.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// A possible merge: the symbol at `at` with the one after it.
struct Candidate {
  std::int32_t rank = 0;
  std::int32_t at = 0;
  TokenId merged = 0;
};

struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

}  // namespace

Result<BpeModel> BpeModel::create(BpeSpec spec) {
  BpeModel model;
  model.spec_ = std::move(spec);
  OUTRIDER_RETURN_IF_ERROR(model.index_tokens());
  const std::optional<TokenId> unknown = model.spec_.unknown;
  const auto num_tokens = static_cast<TokenId>(model.spec_.tokens.size());
  if (unknown && (*unknown < 0 || *unknown >= num_tokens ||
                  !model.spec_.tokens[static_cast<std::size_t>(*unknown)])) {
    return data_loss("vocabulary: the unknown token's id " + std::to_string(*unknown) +
                     " has no token");
  }
  model.index_merges();
  return model;
}

Status BpeModel::index_tokens() {
  id_of_token_.reserve(spec_.tokens.size());
  for (std::size_t id = 0; id < spec_.tokens.size(); ++id) {
    if (!spec_.tokens[id]) continue;
    if (!id_of_token_.emplace(*spec_.tokens[id], static_cast<TokenId>(id)).second) {
      return data_loss("vocabulary: the token '" + *spec_.tokens[id] + "' appears twice");
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = spec_.byte_fallback ? find(fallback_token(byte)) : std::nullopt;
    id_of_byte_[static_cast<std::size_t>(byte)] = found.value_or(-1);
  }
  return {};
}

void BpeModel::index_merges() {
  rules_.resize(std::bit_ceil(2 * spec_.merges.size() + 2));
  for (std::size_t rank = 0; rank < spec_.merges.size(); ++rank) {
    const BpeMerge& merge = spec_.merges[rank];
    const std::uint64_t pair = key_of(merge.left, merge.right);
    std::size_t place = mix(pair) & (rules_.size() - 1);
    while (rules_[place].rank >= 0 && rules_[place].pair != pair) {
      place = (place + 1) & (rules_.size() - 1);
    }
    // A repeated pair has the later rank, as in Hugging Face tokenizers.
    rules_[place] = {pair, static_cast<std::int32_t>(rank), merge.merged};
  }
}

const BpeModel::Rule* BpeModel::find_rule(TokenId left, TokenId right) const {
  const std::uint64_t pair = key_of(left, right);
  std::size_t place = mix(pair) & (rules_.size() - 1);
  while (rules_[place].rank >= 0) {
    if (rules_[place].pair == pair) return &rules_[place];
    place = (place + 1) & (rules_.size() - 1);
  }
  return nullptr;
}

std::optional<TokenId> BpeModel::find(std::string_view token) const {
  const auto found = id_of_token_.find(token);
  if (found == id_of_token_.end()) return std::nullopt;
  return found->second;
}

std::optional<TokenId> BpeModel::find_fallback(std::uint8_t byte) const {
  return id_of_byte_[byte] < 0 ? std::nullopt : std::optional(id_of_byte_[byte]);
}

// Takes characters one after another, as Hugging Face's library does: an unknown token is held
// until a known character comes, so byte tokens are put before it.
class BpeModel::SymbolList {
 public:
  explicit SymbolList(const BpeModel& model, std::size_t num_bytes) : model_(model) {
    symbols_.reserve(num_bytes);
  }

  void add(std::string_view character) {
    if (const auto id = model_.find(character)) {
      add_waiting();
      symbols_.push_back({*id});
    } else if (!add_bytes(character) && model_.spec_.unknown) {
      if (!model_.spec_.fuse_unknown) add_waiting();
      unknown_waits_ = true;
    }
  }

  std::vector<Symbol> finish() {
    add_waiting();
    return std::move(symbols_);
  }

 private:
  void add_waiting() {
    if (unknown_waits_) symbols_.push_back({*model_.spec_.unknown});
    unknown_waits_ = false;
  }

  // All of the character's bytes, or none.
  bool add_bytes(std::string_view character) {
    const auto id_of = [&](char c) { return model_.id_of_byte_[static_cast<std::uint8_t>(c)]; };
    if (std::ranges::any_of(character, [&](char c) { return id_of(c) < 0; })) return false;
    for (const char c : character) symbols_.push_back({id_of(c)});
    return true;
  }

  const BpeModel& model_;
  std::vector<Symbol> symbols_;
  bool unknown_waits_ = false;
};

std::vector<BpeModel::Symbol> BpeModel::symbols_of(std::string_view piece) const {
  SymbolList symbols(*this, piece.size());
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, utf8_length(piece[at]));
    symbols.add(character);
    at += character.size();
  }
  return symbols.finish();
}

void BpeModel::merge(std::vector<Symbol>& symbols) const {
  std::vector<Candidate> first;
  const auto num_symbols = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < num_symbols; ++i) {
    symbols[static_cast<std::size_t>(i)].previous = i - 1;
    symbols[static_cast<std::size_t>(i)].next = i + 1 < num_symbols ? i + 1 : -1;
  }
  const auto at = [&](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  const auto candidate = [&](std::int32_t left) -> std::optional<Candidate> {
    if (left < 0 || at(left).next < 0) return std::nullopt;
    const Rule* rule = find_rule(at(left).id, at(at(left).next).id);
    if (rule == nullptr) return std::nullopt;
    return Candidate{rule->rank, left, rule->merged};
  };
  for (std::int32_t i = 0; i + 1 < num_symbols; ++i) {
    if (const auto found = candidate(i)) first.push_back(*found);
  }
  std::priority_queue<Candidate, std::vector<Candidate>, Later> waiting(Later(), std::move(first));
  while (!waiting.empty()) {
    const Candidate next = waiting.top();
    waiting.pop();
    Symbol& left = at(next.at);
    if (left.id == kDead) continue;
    // Neighbours may have changed since; the pair must still make this token.
    const auto current = candidate(next.at);
    if (!current || current->merged != next.merged) continue;
    Symbol& right = at(left.next);
    left.id = next.merged;
    left.next = right.next;
    right.id = kDead;
    if (left.next >= 0) at(left.next).previous = next.at;
    if (const auto before = candidate(left.previous)) waiting.push(*before);
    if (const auto after = candidate(next.at)) waiting.push(*after);
  }
}

void BpeModel::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (spec_.ignore_merges) {
    if (const auto id = find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(piece);
  merge(symbols);
  for (const Symbol& symbol : symbols) {
    if (symbol.id != kDead) out.push_back(symbol.id);
  }
}

}  // namespace outrider
