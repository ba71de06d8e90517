// Cuts normalised text into the pieces that byte-pair merges never cross.
//
// Three kinds of step make up every pre-tokenizer that a file can ask for: a cut at the matches of
// a pattern, a way to write spaces, and GPT-2's alphabet of bytes. Digits, Punctuation, Split and
// ByteLevel's own pattern are cuts; Metaspace and ByteLevel's leading space write spaces.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/text/pipeline/split_pattern.h"

namespace outrider {

// What becomes of a match: it is dropped, a piece of its own, or part of a neighbouring piece.
// "Merged": a match that follows (precedes) another stays alone. Contiguous: neighbouring matches
// are one piece.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Cuts each piece at the matches of a pattern. `invert`: the text between them counts as matches,
// and the matches as the text between.
struct SplitStep {
  SplitPattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
};

// Writes each space of a piece as `marker`, and puts one in front of a piece without.
struct SpaceStep {
  enum class Prepend { kNever, kFirst, kAlways };  // kFirst: at the start of the whole text
  std::string marker;
  Prepend prepend = Prepend::kAlways;
};

// Writes each byte as its character of GPT-2's alphabet (byte_level.h).
struct ByteCharactersStep {};

using PreTokenizerStep = std::variant<SplitStep, SpaceStep, ByteCharactersStep>;

// Pieces of one text, left to right; empty ones are left out.
struct Pieces {
  std::string text;
  std::vector<Span> spans;
  bool first_at_start = false;  // nothing stands before the first piece in the whole text
};

class PreTokenizer final {
 public:
  PreTokenizer() = default;  // one piece
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // text is UTF-8. `at_start`: nothing stands before it in the whole text. Errors: those of
  // SplitPattern; kResourceExhausted for steps that make more than max_step_bytes() of it.
  Result<Pieces> apply(std::string text, bool at_start) const;

  // Whether pieces consist of byte characters only.
  bool makes_byte_characters() const;

  // One line per step. Equal descriptions behave alike, and so do many that a file spells in
  // different ways: steps that change nothing are left out.
  std::string describe() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace outrider
