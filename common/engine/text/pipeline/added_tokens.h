// Tokens in addition to the vocabulary's merges (chat markers, end of text). They are recognised in
// a text before all other steps, longest first.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/pipeline/normalizer.h"
#include "common/engine/text/pipeline/split_pattern.h"

namespace outrider {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // controls the model: never made from a user's text, hidden in output
  bool normalized = false;   // recognised after normalisation, not before
  bool single_word = false;  // only between characters that are no part of a word
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
};

// A part of a text: an added token, or (id < 0) the text between two.
struct TextPart {
  Span span;
  TokenId id = -1;
};

class AddedTokens final {
 public:
  AddedTokens() = default;
  // Errors: kDataLoss for content that is empty or too long, and for a repeated id or content.
  static Result<AddedTokens> create(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // Cuts text[within] (UTF-8) at added tokens. Special tokens are recognised only inside `trusted`
  // (ascending, not overlapping). `normalized` selects one of the two kinds.
  std::vector<TextPart> cut(std::string_view text, const std::vector<Span>& trusted,
                            bool normalized) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }  // by id
  const AddedToken* find(TokenId id) const;
  const AddedToken* find(std::string_view content) const;

 private:
  // A byte trie over the contents of one kind; node 0 is the root.
  struct Trie {
    std::unordered_map<std::uint64_t, std::int32_t> child;  // node << 8 | byte
    std::vector<std::int32_t> token{-1};  // per node: the index of the token that ends there
    std::array<bool, 256> starts{};       // bytes with which a content starts
    void add(std::string_view content, std::int32_t index);
    // The longest content that `text` begins with: its token, and its length.
    std::int32_t match(std::string_view text, std::size_t& length) const;
  };

  // The bytes that `token`, recognised at `found`, includes, or nothing if its conditions do not
  // hold there.
  std::optional<Span> extent(const AddedToken& token, Span found, std::string_view text,
                             std::size_t done) const;

  std::vector<AddedToken> tokens_;
  Trie plain_;
  Trie after_normalization_;
};

}  // namespace outrider
