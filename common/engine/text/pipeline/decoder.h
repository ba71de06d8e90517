// The text of each token id when ids are decoded.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/pipeline/normalizer.h"

namespace outrider {

// A file's decoder steps, in the only supported order.
struct DecoderSpec {
  bool byte_level = false;            // characters of GPT-2's byte alphabet; no other step
  std::vector<ReplaceStep> replaces;  // per token
  std::string marker;                 // Metaspace: marks become spaces; empty: none
  bool drop_first_markers = false;    // Metaspace: removes those of the first token
  bool byte_fallback = false;         // <0x0A> is a byte
  std::string strip;                  // this character, up to strip_left times, at the start of
  int strip_left = 0;                 // the whole text
};

class Decoder final {
 public:
  // `tokens`: the text of each id as in the file.
  static Result<Decoder> create(DecoderSpec spec,
                                const std::vector<std::optional<std::string>>& tokens);

  // The bytes of a token inside a text; the id must have a token.
  std::string_view bytes(TokenId id) const { return at(id).bytes; }
  // The bytes of a token at the start of a text.
  std::string_view first_bytes(TokenId id) const {
    return spec_.drop_first_markers ? at(id).first_bytes : at(id).bytes;
  }
  // Whether this token's bytes may begin or end inside a character.
  bool may_cut_characters(TokenId id) const { return spec_.byte_level || at(id).is_byte; }
  bool contains(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < entries_.size() && at(id).exists;
  }

  // One more than the largest id.
  TokenId size() const { return static_cast<TokenId>(entries_.size()); }

  const DecoderSpec& spec() const { return spec_; }

 private:
  struct Entry {
    std::string bytes;
    std::string first_bytes;  // filled only where first tokens differ
    bool exists = false;
    bool is_byte = false;  // bytes is one byte of a character
  };

  Result<Entry> decode(const std::string& token) const;
  const Entry& at(TokenId id) const { return entries_[static_cast<std::size_t>(id)]; }

  DecoderSpec spec_;
  std::vector<Entry> entries_;
};

}  // namespace outrider
