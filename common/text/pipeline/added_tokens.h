// Tokens that stand beside the vocabulary's merges (chat markers, end of text): found in text
// first, longest first, before anything else happens to it.
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
#include "common/text/pipeline/normalizer.h"
#include "common/text/pipeline/split_pattern.h"

namespace outrider {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // steers the model: never made from a user's text, hidden when shown
  bool normalized = false;   // looked for after normalisation, not before
  bool single_word = false;  // only where no word goes on at either side
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
};

// A part of a text: an added token, or (id < 0) text between.
struct TextPart {
  Span span;
  TokenId id = -1;
};

class AddedTokens final {
 public:
  AddedTokens() = default;
  // Errors: kDataLoss for an empty or overlong content, and for an id or content that stands
  // twice.
  static Result<AddedTokens> create(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // Cuts text[within] (UTF-8) at added tokens. Special tokens count only inside one of `trusted`
  // (ascending, not overlapping). `normalized` chooses between the two kinds.
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
    // The longest content at the start of `text`: its token, and its length.
    std::int32_t match(std::string_view text, std::size_t& length) const;
  };

  // What `token`, found at `found`, takes of the text, or nothing if it does not count there.
  std::optional<Span> extent(const AddedToken& token, Span found, std::string_view text,
                             std::size_t done) const;

  std::vector<AddedToken> tokens_;
  Trie plain_;
  Trie after_normalization_;
};

}  // namespace outrider
