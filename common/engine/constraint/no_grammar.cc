// Stands in for grammar.cc in a build without XGrammar's source.
// SPDX-License-Identifier: Apache-2.0
#ifndef OUTRIDER_HAVE_XGRAMMAR
#include "common/engine/constraint/grammar.h"

namespace outrider {

struct GrammarVocabulary::Sorted {};

std::string no_grammars() {
  return "this program was built without grammars. Remedy: ./run setup, which fetches their "
         "compiler's source, and build again";
}

GrammarVocabulary::GrammarVocabulary(const std::vector<std::string>& /*pieces*/,
                                     Spelling /*spelling*/) {}

Result<std::string> compute_masks(const ConstraintSpec& /*spec*/,
                                  const GrammarVocabulary& /*vocabulary*/) {
  return unimplemented(no_grammars());
}

Result<std::shared_ptr<const Constraint>> compile_grammar(const ConstraintSpec& /*spec*/,
                                                          const GrammarVocabulary& /*vocabulary*/,
                                                          std::string_view /*masks*/) {
  return unimplemented(no_grammars());
}

}  // namespace outrider

#endif  // OUTRIDER_HAVE_XGRAMMAR
