// From the text of a form to what holds answers to it, for one tokenizer. Forms come from clients:
// each is checked, and compiled in a child process, which gives its result to this one. It is kept
// for the same owner, so that one tenant's forms tell another nothing.
//
//   ConstraintCompiler compiler([&] { return grammar_vocabulary(tokenizer); });
//   OUTRIDER_ASSIGN_OR_RETURN(settings.constraint, compiler.compile(spec, tenant));
//
// Thread rule: from any thread. compile() blocks, for seconds where a form is large, so no thread
// that computes or that serves others calls it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/engine/constraint/grammar.h"
#include "common/engine/constraint/trial.h"
#include "common/engine/sampling/constraint.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

// The tokenizer's, which outlives it.
GrammarVocabulary grammar_vocabulary(const Tokenizer& tokenizer);

class ConstraintCompiler final {
 public:
  struct Bounds {
    TrialBounds trial = {};
    std::size_t kept_bytes = std::size_t{64} << 20;
    std::size_t kept_forms = 256;
  };

  // vocabulary: asked for once, when the first form comes; what it refers to outlives this, and
  // the forms.
  explicit ConstraintCompiler(std::function<GrammarVocabulary()> vocabulary)
      : ConstraintCompiler(std::move(vocabulary), Bounds()) {}
  ConstraintCompiler(std::function<GrammarVocabulary()> vocabulary, Bounds bounds)
      : make_vocabulary_(std::move(vocabulary)), bounds_(bounds) {}

  // A spec of kind kNone needs nothing. Errors: those of form_checks.h and grammar.h, and
  // RESOURCE_EXHAUSTED for a form that takes too much.
  Result<AnswerConstraint> compile(const ConstraintSpec& spec, const std::string& owner = "");

  // The constraint that compile() has already, without waiting for it.
  std::optional<AnswerConstraint> find(const ConstraintSpec& spec, const std::string& owner = "");

 private:
  struct Kept {
    std::string owner;
    AnswerConstraint constraint;
    std::size_t bytes = 0;
  };

  Result<std::shared_ptr<const Constraint>> compile_anew(const ConstraintSpec& spec)
      OUTRIDER_REQUIRES(compiling_);
  void keep(const std::string& owner, const AnswerConstraint& constraint);

  const std::function<GrammarVocabulary()> make_vocabulary_;
  const Bounds bounds_;
  Mutex compiling_;  // one form at a time; taken before mu_
  std::optional<GrammarVocabulary> vocabulary_ OUTRIDER_GUARDED_BY(compiling_);
  Mutex mu_;
  std::list<Kept> kept_ OUTRIDER_GUARDED_BY(mu_);  // what was asked for last stands first
};

}  // namespace outrider
