// The log-probabilities of an answer's tokens in OpenAI's forms, of chats and of plain completions.
//
// Thread rule: values; one thread each. Ownership: the tokenizer outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "common/engine/text/tokenizer.h"
#include "common/serving/openai/completion_answer.h"

namespace outrider {

class LogprobsForm final {
 public:
  LogprobsForm(const Tokenizer& tokenizer, bool is_chat)
      : tokenizer_(&tokenizer), is_chat_(is_chat) {}

  // A plain completion's tokens come behind those of the prompt, with which it begins.
  void begin_with(std::vector<TokenId> prompt);
  // The log-probabilities of the prompt's next tokens. The first token has none.
  void add_prompt(std::span<const TokenLogprobs> logprobs);
  // The next tokens, as one `logprobs`, with those of the prompt so far; null: none of them has
  // any.
  nlohmann::ordered_json of(std::span<const AnswerPiece> pieces);
  // Appends the tokens of `more` to those of `all`, which may be null.
  static void append(nlohmann::ordered_json& all, const nlohmann::ordered_json& more);

 private:
  void add(TokenId id, const TokenLogprobs* logprobs, nlohmann::ordered_json& all) const;

  const Tokenizer* tokenizer_;
  bool is_chat_;
  std::size_t offset_ = 0;  // characters of the text so far
  std::vector<TokenId> prompt_;
  std::size_t prompt_known_ = 0;             // tokens of it that are in begun_, or were
  std::vector<std::size_t> prompt_offsets_;  // where the text of each begins, and the end of all
  nlohmann::ordered_json begun_ = nullptr;   // what comes with the next tokens
};

}  // namespace outrider
