// The first step of the law of choice for an answer with ChoiceSettings: what they make of a row of
// logits, given the text before it. In this order: repetition, frequency and presence penalty,
// bias, then -infinity for tokens that may not come, by themselves or by the answer's form.
// Temperature and filters follow in choose().
//
//   (append* adjust*)*
//
// A row of a tree is adjusted by the text of its own path: adjust() takes the nodes' tokens and
// changes nothing, so nodes in any order, and several threads at once, may ask; so does forced().
//
// Thread rule: append() by one thread, while none calls adjust(). Arithmetic is f32, token by
// token: the same bits everywhere. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/types.h"
#include "common/engine/sampling/choice_settings.h"

namespace outrider {

class RowAdjuster final {
 public:
  // Adjusts nothing.
  RowAdjuster() = default;
  // answer_begin: the position of the answer's first token. stop_ids: what min_tokens forbids, and
  // what a constraint allows at its end only. A constraint has been compiled.
  RowAdjuster(ChoiceSettings settings, Position answer_begin, std::vector<TokenId> stop_ids);

  // False: adjust() gives every row back as it is.
  bool adjusts() const { return adjusts_; }

  // The committed text goes on with these tokens.
  void append(std::span<const TokenId> tokens);

  // row: the logits of what follows the committed text and then `path`. The result lies in `out`
  // unless nothing is adjusted. Tokens beyond the row, as of a draft's smaller vocabulary, do not
  // matter.
  std::span<const float> adjust(std::span<const float> row, std::span<const TokenId> path,
                                std::vector<float>& out) const;

  // ConstraintState::forced(); none without a constraint.
  std::vector<TokenId> forced(std::span<const TokenId> path) const;

 private:
  struct Seen {
    TokenId token = 0;
    std::int32_t in_answer = 0;  // times
  };

  void penalise(std::span<const float> row, std::span<const TokenId> path,
                std::span<float> out) const;
  float penalised(float logit, std::int32_t in_answer) const;
  void forbid(std::span<const TokenId> path, std::span<float> out) const;
  bool would_complete(std::span<const TokenId> word, std::span<const TokenId> path) const;
  void constrain(std::span<const TokenId> path, std::span<float> out) const;

  ChoiceSettings settings_;
  Position answer_begin_ = 0;
  std::vector<TokenId> stop_ids_;
  bool adjusts_ = false;

  Position end_ = 0;                       // of the committed text
  std::vector<TokenId> answer_;            // committed
  std::unique_ptr<ConstraintState> form_;  // at the end of answer_; null: it may have any
  std::vector<Seen> seen_;  // tokens of prompt and answer, each once, if penalties need them
  std::unordered_map<TokenId, std::size_t> place_;  // in seen_
};

}  // namespace outrider
