// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/streamed_text.h"

namespace outrider {

AnswerText::Update StreamedText::push(TokenId token) {
  const Result<std::string> piece = detokenizer_.push(token);
  // A target may have ids without a text in the tokenizer (padding of its embedding table).
  const std::string shown = stops_.push(piece.ok() ? *piece : "\uFFFD");
  text_ += shown;
  return {.text = shown, .stopped = stops_.stopped()};
}

std::string StreamedText::preview(std::span<const TokenId> tokens) const {
  StreamedText copy(*this);
  std::string text;
  for (const TokenId token : tokens) text += copy.push(token).text;
  return text;
}

std::string StreamedText::finish() {
  std::string rest = stops_.push(detokenizer_.finish());
  rest += stops_.finish();
  text_ += rest;
  return rest;
}

}  // namespace outrider
