// SPDX-License-Identifier: Apache-2.0
#include "common/text/pipeline/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "common/text/pipeline/byte_level.h"
#include "common/text/pipeline/utf8.h"

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

// The finaliser of SplitMix64: neighbouring ids spread over the whole table.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// A pair that may be merged: the symbol at `at` with the one after it.
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
  OUTRIDER_RETURN_IF_ERROR(model.index_bytes());
  model.index_merges();
  return model;
}

Status BpeModel::index_tokens() {
  id_of_token_.reserve(spec_.tokens.size());
  for (std::size_t id = 0; id < spec_.tokens.size(); ++id) {
    if (!spec_.tokens[id]) continue;
    const auto token_id = static_cast<TokenId>(id);
    if (!id_of_token_.emplace(*spec_.tokens[id], token_id).second) {
      return data_loss("vocabulary: the token '" + *spec_.tokens[id] + "' stands twice");
    }
    if (!spec_.byte_level) continue;
    // A token outside the byte alphabet (an added one) never stands for text.
    if (auto bytes = bytes_of_characters(*spec_.tokens[id])) id_of_piece_.emplace(*bytes, token_id);
  }
  if (!spec_.byte_level) id_of_piece_ = id_of_token_;
  return {};
}

Status BpeModel::index_bytes() {
  id_of_byte_.fill(-1);
  int missing = -1;
  for (int byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<std::size_t>(byte);
    const auto& ids = spec_.byte_level ? id_of_piece_ : id_of_token_;
    const auto found =
        ids.find(spec_.byte_level ? std::string(1, static_cast<char>(byte)) : fallback_token(byte));
    if (found != ids.end()) {
      id_of_byte_[b] = found->second;
    } else if (missing < 0) {
      missing = byte;
    }
  }
  if (spec_.byte_level && missing >= 0) {
    return data_loss("vocabulary: byte-level, but no token for byte " + std::to_string(missing) +
                     "; train it with all 256 bytes as initial alphabet");
  }
  if (!spec_.byte_level && !spec_.unknown && !(spec_.byte_fallback && missing < 0)) {
    return data_loss(
        "vocabulary: no unk_token and no token for each byte, so that unknown "
        "characters would be dropped");
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
    // A pair that stands twice has the later rank, as in Hugging Face tokenizers.
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
  const auto found = id_of_token_.find(std::string(token));
  if (found == id_of_token_.end()) return std::nullopt;
  return found->second;
}

void BpeModel::add_unknown(std::string_view character, bool& fusing,
                           std::vector<Symbol>& symbols) const {
  const auto id_of = [&](char c) { return id_of_byte_[static_cast<std::uint8_t>(c)]; };
  const bool as_bytes = spec_.byte_fallback && std::all_of(character.begin(), character.end(),
                                                           [&](char c) { return id_of(c) >= 0; });
  if (as_bytes) {
    for (const char c : character) symbols.push_back({id_of(c)});
    fusing = false;
  } else if (spec_.unknown && !(fusing && spec_.fuse_unknown)) {
    symbols.push_back({*spec_.unknown});
    fusing = true;
  }
}

std::vector<BpeModel::Symbol> BpeModel::symbols_of(std::string_view piece) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  if (spec_.byte_level) {
    for (const char c : piece) symbols.push_back({id_of_byte_[static_cast<std::uint8_t>(c)]});
    return symbols;
  }
  bool fusing = false;
  std::string character;
  for (std::size_t at = 0; at < piece.size(); at += character.size()) {
    character = piece.substr(at, utf8_length(piece[at]));
    const auto found = id_of_piece_.find(character);
    if (found != id_of_piece_.end()) {
      symbols.push_back({found->second});
      fusing = false;
    } else {
      add_unknown(character, fusing, symbols);
    }
  }
  return symbols;
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
    // Neighbours may have changed since; what counts is that the pair still makes this token.
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
    const auto found = id_of_piece_.find(std::string(piece));
    if (found != id_of_piece_.end()) {
      out.push_back(found->second);
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
