// Byte-pair encoding: one piece of text in, token ids out.
//
// The symbols of a piece are merged pair by pair: the pair of lowest rank first, of equal ones the
// leftmost (Sennrich et al. 2016, in the order of Hugging Face and SentencePiece). Pairs wait in a
// heap, so a piece of n symbols costs O(n log n) for any content.
//
// The symbols are characters; for a byte-level vocabulary vocabulary and pieces use GPT-2's
// alphabet (pre_tokenizer.h). A character without a token becomes its bytes' tokens, or else the
// unknown token, or else nothing: byte-level vocabularies may lack bytes that did not occur in
// their training text.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

struct BpeMerge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
  friend bool operator==(const BpeMerge&, const BpeMerge&) = default;
};

// A file's content; BpeModel::create() checks it.
struct BpeSpec {
  // The text of each id as in the file; an id without a token has none.
  std::vector<std::optional<std::string>> tokens;
  std::vector<BpeMerge> merges;  // by rank
  bool byte_fallback = false;    // an unknown character becomes its bytes' tokens <0x00>..<0xFF>
  bool fuse_unknown = false;     // neighbouring unknown characters become one unknown token
  bool ignore_merges = false;    // a piece that is a token becomes that token, without merges
  std::optional<TokenId> unknown;
};

class BpeModel final {
 public:
  // Errors: kDataLoss for a repeated token, and an unknown token that does not exist.
  static Result<BpeModel> create(BpeSpec spec);

  // Appends the ids of `piece` (UTF-8, at most 2^30 bytes) to `out`.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const BpeSpec& spec() const { return spec_; }
  // The id of a token by its text in the file.
  std::optional<TokenId> find(std::string_view token) const;
  // The token of a byte, for vocabularies with byte fallback.
  std::optional<TokenId> find_fallback(std::uint8_t byte) const;

 private:
  struct Rule {
    std::uint64_t pair = 0;
    std::int32_t rank = -1;  // -1: an empty place of the table
    TokenId merged = 0;
  };
  struct Symbol {
    TokenId id = 0;  // kDead once merged into its left neighbour
    std::int32_t previous = -1;
    std::int32_t next = -1;
  };

  // Allows look-ups by a view.
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  class SymbolList;

  BpeModel() = default;
  Status index_tokens();
  void index_merges();
  const Rule* find_rule(TokenId left, TokenId right) const;
  std::vector<Symbol> symbols_of(std::string_view piece) const;
  void merge(std::vector<Symbol>& symbols) const;

  BpeSpec spec_;
  std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>> id_of_token_;
  std::array<TokenId, 256> id_of_byte_{};  // of byte fallback; -1 if there is none
  std::vector<Rule> rules_;                // open addressing, a power of two long
};

}  // namespace outrider
