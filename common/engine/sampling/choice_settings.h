// The settings of a request that change logits before temperature and filters: penalties of tokens
// that the text already has, biases, forbidden tokens, and a form (docs/law-of-choice.md). They are
// a pure function of the committed text, so drafts, trees and failover do not change the answer.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/sampling/constraint.h"

namespace outrider {

// Is added to the logit of a token.
struct LogitBias {
  TokenId token = 0;
  float bias = 0;  // -100 to 100

  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

// Names and meanings are OpenAI's and, where it has none, vLLM's.
struct ChoiceSettings {
  static constexpr std::size_t kMaxBiases = 1024;
  static constexpr std::size_t kMaxBadWords = 256;
  static constexpr std::size_t kMaxBadWordTokens = 32;

  float presence_penalty = 0;   // taken from the logits of tokens that are in the answer; -2 to 2
  float frequency_penalty = 0;  // the same for each time that they are in the answer; -2 to 2
  // Divides positive logits of tokens that are in prompt or answer, and multiplies negative ones.
  float repetition_penalty = 1;                      // 0.01 to 100; 1: none
  std::vector<LogitBias> logit_bias = {};            // each token at most once
  std::int64_t min_tokens = 0;                       // before these no stop token ends the answer
  std::vector<std::vector<TokenId>> bad_words = {};  // sequences that the answer may not contain
  AnswerConstraint constraint = {};                  // the form that the answer has

  // A row is chosen from as the model gives it.
  bool change_nothing() const { return *this == ChoiceSettings(); }
  bool penalise() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1;
  }

  friend bool operator==(const ChoiceSettings&, const ChoiceSettings&) = default;
};

// INVALID_ARGUMENT that names field, value and remedy, for a value out of range, a token twice in
// logit_bias, an empty sequence or too many entries. vocab_size: every token must be below; 0: it
// is not known yet.
Status validate(const ChoiceSettings& settings, std::int32_t vocab_size);

}  // namespace outrider
