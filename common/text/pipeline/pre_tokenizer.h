// Cuts normalised text into the pieces that byte-pair merges never cross.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/text/pipeline/split_pattern.h"

namespace outrider {

// Cuts at the matches. `invert` swaps matches and the text between them; `remove` drops what
// counts as a match, otherwise it is a piece of its own.
struct SplitStep {
  SplitPattern pattern;
  bool invert = false;
  bool remove = false;
};

// The spaces of a byte-level vocabulary: a space before each piece that has none, if wanted.
// That bytes become symbols is the model's business.
struct LeadingSpaceStep {};

// SentencePiece: spaces become `marker`; one more goes in front.
struct MetaspaceStep {
  enum class Prepend { kNever, kFirst, kAlways };
  std::string marker = "\xE2\x96\x81";  // U+2581
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // before each marker
};

using PreTokenizerStep = std::variant<SplitStep, LeadingSpaceStep, MetaspaceStep>;

// Pieces of one text; empty ones are left out.
struct Pieces {
  std::string text;
  std::vector<Span> spans;
};

class PreTokenizer final {
 public:
  PreTokenizer() = default;  // one piece
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // text is UTF-8. `at_start`: nothing stands before it in the whole text.
  Result<Pieces> apply(std::string text, bool at_start) const;

  // One line per step; equal descriptions behave alike.
  std::string describe() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

// GPT-2's own pattern, which ByteLevel uses unless told otherwise.
Result<SplitPattern> gpt2_split_pattern();

}  // namespace outrider
