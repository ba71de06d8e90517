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

AnswerText::Update StreamedText::preview(std::span<const TokenId> tokens, bool ends) const {
  StreamedText copy(*this);
  Update update;
  for (const TokenId token : tokens) {
    Update next = copy.push(token);
    update = {.text = update.text + next.text, .stopped = next.stopped};
  }
  if (ends && !update.stopped) update.text += copy.finish();
  return update;
}

std::string StreamedText::finish() {
  std::string rest = stops_.push(detokenizer_.finish());
  rest += stops_.finish();
  text_ += rest;
  return rest;
}

}  // namespace outrider
