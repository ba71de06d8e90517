// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/streamed_text.h"

#include <algorithm>

namespace outrider {

std::string StreamedText::State::push(TokenId token) {
  const Result<std::string> piece = detokenizer.push(token);
  // A target may have ids without a text in the tokenizer (padding of its embedding table).
  return stops.push(piece.ok() ? *piece : "\uFFFD");
}

std::string StreamedText::State::finish() {
  std::string rest = stops.push(detokenizer.finish());
  return rest + stops.finish();
}

bool StreamedText::is_shown(TokenId token) const {
  return !tokenizer_.is_special(token) || std::ranges::find(shown_ids_, token) != shown_ids_.end();
}

AnswerText::Update StreamedText::push(TokenId token) {
  if (!is_shown(token)) return {.text = "", .stopped = state_.stops.stopped()};
  const std::string shown = state_.push(token);
  text_ += shown;
  return {.text = shown, .stopped = state_.stops.stopped()};
}

AnswerText::Update StreamedText::preview(std::span<const TokenId> tokens, bool ends) const {
  State copy = state_;
  Update update;
  for (const TokenId token : tokens) {
    if (is_shown(token)) update.text += copy.push(token);
  }
  update.stopped = !tokens.empty() && copy.stops.stopped();
  if (ends && !update.stopped) update.text += copy.finish();
  return update;
}

std::string StreamedText::finish() {
  std::string rest = state_.finish();
  text_ += rest;
  return rest;
}

}  // namespace outrider
