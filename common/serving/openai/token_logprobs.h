// The log-probabilities of an answer's tokens in OpenAI's forms, of chats and of plain completions.
//
// Thread rule: values; one thread each. Ownership: the tokenizer outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>

#include "common/engine/text/tokenizer.h"
#include "common/serving/openai/completion_answer.h"

namespace outrider {

class LogprobsForm final {
 public:
  LogprobsForm(const Tokenizer& tokenizer, bool is_chat)
      : tokenizer_(&tokenizer), is_chat_(is_chat) {}

  // The next tokens, as one `logprobs`; null: none of them has any.
  nlohmann::ordered_json of(std::span<const AnswerPiece> pieces);
  // Appends the tokens of `more` to those of `all`, which may be null.
  static void append(nlohmann::ordered_json& all, const nlohmann::ordered_json& more);

 private:
  const Tokenizer* tokenizer_;
  bool is_chat_;
  std::size_t offset_ = 0;  // characters of the tokens so far
};

}  // namespace outrider
