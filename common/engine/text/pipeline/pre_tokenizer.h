// Cuts normalised text into pieces; merges never cross their borders.
//
// Three kinds of step make up all supported pre-tokenizers: a cut at the matches of a pattern, a
// marking of spaces, and GPT-2's alphabet of bytes. Digits, Punctuation, Split and ByteLevel's own
// pattern are cuts; Metaspace and ByteLevel's leading space mark spaces.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/engine/text/pipeline/split_pattern.h"

namespace outrider {

// The fate of a match: dropped, a piece of its own, or part of a neighbouring piece. "Merged": a
// match that follows (precedes) another is a piece of its own. Contiguous: neighbouring matches are
// one piece.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Cuts each piece at the matches of a pattern. `invert` exchanges the matches and the text between
// them.
struct SplitStep {
  SplitPattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
};

// Writes each space of a piece as `marker`, and adds one to the front if the piece does not begin
// with one.
struct SpaceStep {
  enum class Prepend { kNever, kFirst, kAlways };  // kFirst: at the start of the whole text
  std::string marker;
  Prepend prepend = Prepend::kAlways;
};

// Writes each byte as its character in GPT-2's alphabet (byte_level.h).
struct ByteCharactersStep {};

using PreTokenizerStep = std::variant<SplitStep, SpaceStep, ByteCharactersStep>;

// Pieces of one text, left to right; empty ones are left out.
struct Pieces {
  std::string text;
  std::vector<Span> spans;
  bool first_at_start = false;  // the first piece is the start of the whole text
};

class PreTokenizer final {
 public:
  PreTokenizer() = default;  // one piece
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // text is UTF-8. `at_start`: the text is the start of the whole text. Errors: those of
  // SplitPattern; kResourceExhausted if a step's result exceeds max_step_bytes().
  Result<Pieces> apply(std::string text, bool at_start) const;

  // Whether a part of a text may be in no piece.
  bool drops_text() const;

  // Whether pieces consist of byte characters only.
  bool makes_byte_characters() const;

  // One line per step. Equal descriptions behave alike. Many spellings of the same behaviour have
  // one description: steps that change nothing are left out.
  std::string describe() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace outrider
