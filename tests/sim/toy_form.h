// Forms of answers for simulations: an automaton over tokens, drawn at random, and the grammar that
// says the same. Sessions are held to the grammar; what they should have written is found by the
// automaton alone.
//
// Thread rule: immutable. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/engine/sampling/constraint.h"
#include "emulation/random/random.h"

namespace outrider {

class ToyForm final : public Constraint {
 public:
  // Tokens from 0 to vocab_size, at least 3, of which 0 is the one that ends answers. From each
  // state the form goes on. ends: some states are ends too; else none is. A build without grammars
  // has no forms: the constraint asks for nothing.
  static AnswerConstraint drawn(SeededRandom& random, std::int32_t vocab_size, bool ends = true);

  std::unique_ptr<ConstraintState> begin() const override { return grammar_->begin(); }
  std::size_t size_in_bytes() const override { return grammar_->size_in_bytes(); }

  // By the automaton: what may follow the answer.
  AllowedTokens allowed_after(std::span<const TokenId> answer) const;

 private:
  struct State {
    std::vector<std::int32_t> next;  // by token; -1: it may not come
    bool is_end = false;
  };

  std::string rules() const;

  std::vector<State> states_;
  std::shared_ptr<const Constraint> grammar_;
};

}  // namespace outrider
