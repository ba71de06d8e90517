// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/toy_form.h"

#include "common/base/status.h"
#include "common/engine/constraint/grammar.h"

namespace outrider {
namespace {

// Two letters each, so that no piece is the beginning of another.
std::string piece_of(TokenId token) {
  return {static_cast<char>('a' + token / 26), static_cast<char>('a' + token % 26)};
}

// The whole pieces with which the text begins.
std::vector<TokenId> spell(std::string_view text) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i + 2 <= text.size(); i += 2) {
    tokens.push_back((text[i] - 'a') * 26 + text[i + 1] - 'a');
  }
  return tokens;
}

std::string name_of_state(std::size_t state) {
  return "s" + std::to_string(state);
}

}  // namespace

AnswerConstraint ToyForm::drawn(SeededRandom& random, std::int32_t vocab_size, bool ends) {
  if (!no_grammars().empty()) return {};
  auto form = std::make_shared<ToyForm>();
  const auto vocab = static_cast<std::size_t>(vocab_size);
  form->states_.resize(1 + random.below(4));
  for (std::size_t i = 0; i < form->states_.size(); ++i) {
    State& state = form->states_[i];
    state.next.assign(vocab, -1);
    state.is_end = ends && (i == 0 || random.chance(0.5));
    for (std::int32_t& next : state.next) {
      if (random.chance(0.4)) next = static_cast<std::int32_t>(random.below(form->states_.size()));
    }
    // So that from every state the first one is reached, by a token that is no stop.
    state.next[1 + random.below(vocab - 1)] =
        static_cast<std::int32_t>((i + 1) % form->states_.size());
  }
  std::vector<std::string> pieces;
  for (TokenId token = 0; token < vocab_size; ++token) pieces.push_back(piece_of(token));
  AnswerConstraint constraint{.spec = {ConstraintKind::kGrammar, form->rules()}};
  const GrammarVocabulary vocabulary(pieces, spell);
  const auto masks = compute_masks(constraint.spec, vocabulary);
  OUTRIDER_CHECK(masks.ok());
  auto grammar = compile_grammar(constraint.spec, vocabulary, *masks);
  OUTRIDER_CHECK(grammar.ok());
  form->grammar_ = *std::move(grammar);
  constraint.compiled = std::move(form);
  return constraint;
}

std::string ToyForm::rules() const {
  std::string text = "root ::= s0\n";
  for (std::size_t i = 0; i < states_.size(); ++i) {
    std::string ways = states_[i].is_end ? "\"\"" : "";
    for (std::size_t token = 0; token < states_[i].next.size(); ++token) {
      const std::int32_t next = states_[i].next[token];
      if (next < 0) continue;
      ways += (ways.empty() ? "\"" : " | \"") + piece_of(static_cast<TokenId>(token)) + "\" " +
              name_of_state(static_cast<std::size_t>(next));
    }
    text += name_of_state(i) + " ::= " + ways + "\n";
  }
  return text;
}

AllowedTokens ToyForm::allowed_after(std::span<const TokenId> answer) const {
  std::int32_t at = 0;
  for (const TokenId token : answer) {
    at = states_[static_cast<std::size_t>(at)].next[static_cast<std::size_t>(token)];
    if (at < 0) return {};
  }
  const State& state = states_[static_cast<std::size_t>(at)];
  AllowedTokens allowed{.words = std::vector<std::uint32_t>((state.next.size() + 31) / 32, 0),
                        .may_end = state.is_end};
  for (std::size_t token = 0; token < state.next.size(); ++token) {
    if (state.next[token] >= 0) allowed.words[token / 32] |= std::uint32_t{1} << (token % 32);
  }
  return allowed;
}

}  // namespace outrider
