// Builds a tokenizer from the pieces of a SentencePiece vocabulary, from any file.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/text/pipeline/tokenizer_parts.h"

namespace outrider {

// The numbers in tokenizer.model and GGUF files.
enum class PieceType : std::uint64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // not text, such as <s>
  kUserDefined = 4,  // recognised in a text before it is split
  kUnused = 5,       // placeholder
  kByte = 6,
};

struct SentencePiece {
  std::string text;
  float score = 0;  // of two possible merges the one with the better score is made
  PieceType type = PieceType::kNormal;
};

struct SentencePieceVocabulary {
  std::vector<SentencePiece> pieces = {};  // by id
  std::optional<TokenId> unknown = {};
  bool byte_fallback = false;
  bool add_space_prefix = true;
  bool remove_extra_spaces = false;
  bool has_scores = true;  // false: the caller has a list of merges
};

// Errors: kDataLoss for a piece that has no text or more than 512 bytes, is not UTF-8, or has
// another type or a score that is not a number; the message begins with `what`.
Result<TokenizerParts> sentencepiece_parts(const SentencePieceVocabulary& vocabulary,
                                           std::string_view what);

// The piece as an added token; nothing if its type is not one.
std::optional<AddedToken> added_token_of(const std::string& text, PieceType type, TokenId id);

}  // namespace outrider
