// Grammars that XGrammar compiles, behind Outrider's own interface
// (common/engine/sampling/constraint.h): nothing else includes it. A build without its source has
// no grammars.
//
// Thread rule: GrammarVocabulary is immutable, share it; compile_grammar() from any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/sampling/constraint.h"

namespace outrider {

// Why this build has no grammars; empty: it has.
std::string no_grammars();

// The tokenizer's pieces in the order in which grammars read them.
class GrammarVocabulary final {
 public:
  // pieces: the bytes of each id; empty: the id stands for no text, such as a special token's.
  // Takes about a microsecond for each.
  explicit GrammarVocabulary(const std::vector<std::string>& pieces);

  struct Sorted;
  const std::shared_ptr<const Sorted>& sorted() const { return sorted_; }

 private:
  std::shared_ptr<const Sorted> sorted_;
};

// spec: has passed form_checks.h; the text of a schema is that of checked_schema(). Neither time
// nor memory is bounded here. Errors: INVALID_ARGUMENT with the compiler's reason, UNIMPLEMENTED
// for what it would have passed over, or where there are no grammars.
Result<std::shared_ptr<const Constraint>> compile_grammar(const ConstraintSpec& spec,
                                                          const GrammarVocabulary& vocabulary);

}  // namespace outrider
