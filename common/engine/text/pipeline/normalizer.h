// Normalises text before it is split: Unicode normal forms, case, and SentencePiece's marking of
// spaces.
//
// Thread rule: immutable; const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/engine/text/pipeline/split_pattern.h"

namespace outrider {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

struct UnicodeFormStep {
  UnicodeForm form = UnicodeForm::kNfc;
};
// Character by character, without context, in the root locale.
struct LowercaseStep {};
// Removes White_Space at the ends.
struct StripStep {
  bool left = true;
  bool right = true;
};
// SentencePiece's remove_extra_whitespaces: removes U+0020 at the ends, and replaces several by
// one.
struct CollapseSpacesStep {};
// Puts `text` before a text that is not empty.
struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  SplitPattern pattern;
  std::string content;
};

using NormalizerStep = std::variant<UnicodeFormStep, LowercaseStep, StripStep, CollapseSpacesStep,
                                    PrependStep, ReplaceStep>;

class Normalizer final {
 public:
  Normalizer() = default;  // changes nothing
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  // text is UTF-8, and so is the result. Errors: kResourceExhausted if a step's result exceeds
  // max_step_bytes().
  Result<std::string> apply(std::string_view text) const;

  bool empty() const { return steps_.empty(); }

  // How many bytes of a text become one byte of its result at most; 0: any number.
  std::size_t most_bytes_for_one() const;

  // One line per step; steps with equal descriptions behave alike.
  std::string describe() const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace outrider
