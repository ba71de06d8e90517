// The pieces of a SentencePiece vocabulary, whichever file they stand in, as a tokenizer.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/pipeline/tokenizer_parts.h"

namespace outrider {

// The numbers that tokenizer.model and GGUF files write.
enum class PieceType : std::uint64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // steers the model
  kUserDefined = 4,  // found in a text before it is split
  kUnused = 5,       // holds a place
  kByte = 6,
};

struct SentencePiece {
  std::string text;
  float score = 0;  // of two pairs that could be joined, the one with the better score is
  PieceType type = PieceType::kNormal;
};

struct SentencePieceVocabulary {
  std::vector<SentencePiece> pieces = {};  // by id
  std::optional<TokenId> unknown = {};
  bool byte_fallback = false;
  bool add_space_prefix = true;
  bool remove_extra_spaces = false;
};

// Errors: kDataLoss for a piece without text, with more than 512 bytes, not UTF-8, of another type
// or with a score that is no number; the message begins with `what`.
Result<TokenizerParts> sentencepiece_parts(const SentencePieceVocabulary& vocabulary,
                                           std::string_view what);

// The piece as an added token; nothing if its type makes it none.
std::optional<AddedToken> added_token_of(const std::string& text, PieceType type, TokenId id);

}  // namespace outrider
