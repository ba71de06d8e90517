// Grammars that XGrammar compiles, behind Outrider's own interface
// (common/engine/sampling/constraint.h): nothing else includes it. A build without its source has
// no grammars.
//
// Thread rule: GrammarVocabulary is immutable, share it; compile_grammar() from any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/sampling/constraint.h"

namespace outrider {

// Why this build has no grammars; empty: it has.
std::string no_grammars();

// How a tokenizer cuts bytes inside a text; none: it cannot.
using Spelling = std::function<std::vector<TokenId>(std::string_view)>;

// The tokenizer's pieces in the order in which grammars read them.
class GrammarVocabulary final {
 public:
  // pieces: the bytes of each id; empty: the id stands for no text, such as a special token's.
  // Takes about a microsecond for each. spelling: of the text that a form forces.
  explicit GrammarVocabulary(const std::vector<std::string>& pieces, Spelling spelling = {});

  struct Sorted;
  const std::shared_ptr<const Sorted>& sorted() const { return sorted_; }

 private:
  std::shared_ptr<const Sorted> sorted_;
};

// A grammar is compiled in two steps: into states, and into each state's mask of the tokens that
// may follow, which is computed over the whole vocabulary and takes nearly all the time. The masks
// go as bytes from a process that is ended when it takes too long to another one of the same
// program, which then holds the form without computing them.
//
// spec: has passed form_checks.h; the text of a schema is that of checked_schema(). Neither time
// nor memory is bounded here. Errors: INVALID_ARGUMENT with the compiler's reason, UNIMPLEMENTED
// for what it would have passed over, or where there are no grammars.
Result<std::string> compute_masks(const ConstraintSpec& spec, const GrammarVocabulary& vocabulary);

// masks: by compute_masks() of the same spec and vocabulary. INTERNAL: they are those of another
// form.
Result<std::shared_ptr<const Constraint>> compile_grammar(const ConstraintSpec& spec,
                                                          const GrammarVocabulary& vocabulary,
                                                          std::string_view masks);

}  // namespace outrider
