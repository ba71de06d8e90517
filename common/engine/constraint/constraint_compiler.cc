// SPDX-License-Identifier: Apache-2.0
#include "common/engine/constraint/constraint_compiler.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "common/engine/constraint/form_checks.h"
#include "common/engine/text/inside_text.h"

namespace outrider {
namespace {

constexpr char kAnyObject[] = R"({"type": "object"})";

// The same form, as it is compiled.
Result<ConstraintSpec> checked(const ConstraintSpec& spec) {
  if (spec.text.size() > ConstraintSpec::kMaxBytes) {
    return invalid_argument("the form has " + std::to_string(spec.text.size()) +
                            " bytes. Remedy: at most " + std::to_string(ConstraintSpec::kMaxBytes));
  }
  ConstraintSpec form = spec;
  if (form.text.find('\0') != std::string::npos) {
    return invalid_argument("the form has a byte 0. Remedy: leave it out");
  }
  if (form.kind == ConstraintKind::kRegex) OUTRIDER_RETURN_IF_ERROR(check_regex(form.text));
  if (form.kind == ConstraintKind::kGrammar) OUTRIDER_RETURN_IF_ERROR(check_grammar(form.text));
  if (form.kind == ConstraintKind::kFramed) {
    OUTRIDER_ASSIGN_OR_RETURN(form.text, checked_frames(form.text));
  }
  if (form.kind == ConstraintKind::kJsonObject) form = {ConstraintKind::kJsonSchema, kAnyObject};
  if (form.kind == ConstraintKind::kJsonSchema) {
    OUTRIDER_ASSIGN_OR_RETURN(form.text, checked_schema(form.text));
  }
  return form;
}

}  // namespace

GrammarVocabulary grammar_vocabulary(const Tokenizer& tokenizer) {
  std::vector<std::string> pieces(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.contains(id) || tokenizer.is_special(id)) continue;
    const Result<std::string_view> bytes = tokenizer.token_bytes(id);
    if (bytes.ok()) pieces[static_cast<std::size_t>(id)] = *bytes;
  }
  return GrammarVocabulary(pieces, [&tokenizer](std::string_view bytes) {
    return tokens_inside_text(tokenizer, bytes);
  });
}

std::optional<AnswerConstraint> ConstraintCompiler::find(const ConstraintSpec& spec,
                                                         const std::string& owner) {
  if (spec.kind == ConstraintKind::kNone) return AnswerConstraint();
  const MutexLock lock(mu_);
  const auto at = std::ranges::find_if(
      kept_, [&](const Kept& each) { return each.owner == owner && each.constraint.spec == spec; });
  if (at == kept_.end()) return std::nullopt;
  kept_.splice(kept_.begin(), kept_, at);
  return at->constraint;
}

Result<AnswerConstraint> ConstraintCompiler::compile(const ConstraintSpec& spec,
                                                     const std::string& owner) {
  if (std::optional<AnswerConstraint> kept = find(spec, owner)) return *std::move(kept);
  if (std::string why = no_grammars(); !why.empty()) return unimplemented(std::move(why));
  OUTRIDER_ASSIGN_OR_RETURN(const ConstraintSpec form, checked(spec));
  const MutexLock lock(compiling_);
  // Another thread may have compiled the same meanwhile.
  if (std::optional<AnswerConstraint> kept = find(spec, owner)) return *std::move(kept);
  AnswerConstraint constraint{.spec = spec};
  OUTRIDER_ASSIGN_OR_RETURN(constraint.compiled, compile_anew(form));
  keep(owner, constraint);
  return constraint;
}

Result<std::shared_ptr<const Constraint>> ConstraintCompiler::compile_anew(
    const ConstraintSpec& spec) {
  if (!vocabulary_) vocabulary_.emplace(make_vocabulary_());
  const GrammarVocabulary& vocabulary = *vocabulary_;
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::string masks,
      compute_in_child([&] { return compute_masks(spec, vocabulary); }, bounds_.trial));
  return compile_grammar(spec, vocabulary, masks);
}

void ConstraintCompiler::keep(const std::string& owner, const AnswerConstraint& constraint) {
  const MutexLock lock(mu_);
  kept_.push_front({.owner = owner,
                    .constraint = constraint,
                    .bytes = constraint.compiled->size_in_bytes() + constraint.spec.text.size()});
  std::size_t bytes = 0, forms = 0;
  const auto beyond = std::ranges::find_if(kept_, [&](const Kept& each) {
    bytes += each.bytes;
    return ++forms > bounds_.kept_forms || bytes > bounds_.kept_bytes;
  });
  kept_.erase(beyond, kept_.end());
}

}  // namespace outrider
