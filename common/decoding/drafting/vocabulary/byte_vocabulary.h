// The tokens of a tokenizer by their bytes, special ones left out: what a draft of another
// vocabulary means is found through the text.
//
// Thread rule: immutable. Ownership: the tokenizer outlives it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

class ByteVocabulary final {
 public:
  explicit ByteVocabulary(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // The token of exactly these bytes. Of several the largest id: a byte-fallback vocabulary begins
  // with its bytes, and uses its other tokens where it can.
  std::optional<TokenId> find(std::string_view bytes) const;
  // Whether a longer token begins with these bytes.
  bool has_longer(std::string_view bytes) const;
  // Tokens whose bytes together are these, inside a text: as the tokenizer cuts them, and where it
  // would change a byte (as the bytes end within a character) the longest tokens in turn. None
  // where a byte has no token.
  std::vector<TokenId> tokens_of(std::string_view bytes) const;

 private:
  struct Piece {
    std::string_view bytes;  // of the tokenizer
    TokenId id = 0;
  };

  std::string_view bytes_of(TokenId id) const;

  const Tokenizer& tokenizer_;
  std::vector<Piece> pieces_;  // by bytes, then by id
  std::size_t longest_ = 0;    // bytes of a token
};

// FAILED_PRECONDITION for a tokenizer that folds case, drops spaces or replaces characters: what it
// drafts would not be the target's text. name: for the error.
Status check_keeps_bytes(const Tokenizer& tokenizer, const std::string& name);

// Whether each id that both have stands for the same bytes, so that the two differ in added tokens
// or padding only, and ids need no translation.
bool have_same_ids(const Tokenizer& a, const Tokenizer& b);

// The special token of `to` that does what `id` does in `from`: one of the same text, or else the
// one that begins or ends a text.
std::optional<TokenId> same_role(const Tokenizer& from, TokenId id, const Tokenizer& to);

}  // namespace outrider
