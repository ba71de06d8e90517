// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/answer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace outrider {

void Answer::limit_to(Position max_positions) {
  end_position_ = std::min(asked_end_, max_positions);
}

Answer::Taken Answer::take(std::span<const TokenId> tokens,
                           std::span<const TokenLogprobs> logprobs) {
  Taken taken;
  if (ids_.empty()) taken.emit.prompt_logprobs = prompt_logprobs_;
  for (std::size_t i = 0; i < tokens.size() && !taken.stopped; ++i) {
    AnswerText::Update update = text_.push(tokens[i]);
    taken.stopped = update.stopped;
    ids_.push_back(tokens[i]);
    Emit::Token& token = taken.emit.tokens.emplace_back(
        Emit::Token{tokens[i], i + 1 < tokens.size(), std::move(update.text)});
    if (logprobs.empty()) continue;
    token.logprobs = logprobs[i];
    logprobs_.push_back(logprobs[i]);
  }
  return taken;
}

std::optional<Ending> Answer::natural_ending(std::span<const TokenId> stop_ids) const {
  if (ids_.empty()) return std::nullopt;
  if (std::ranges::find(stop_ids, ids_.back()) != stop_ids.end()) return Ending::kStopToken;
  if (prompt_length_ + static_cast<Position>(ids_.size()) < end_position_) return std::nullopt;
  return end_position_ < asked_end_ ? Ending::kContextFull : Ending::kLength;
}

std::optional<Emit> Answer::finish() {
  std::string rest = text_.finish();
  if (rest.empty()) return std::nullopt;
  return Emit{{Emit::Token{-1, false, std::move(rest)}}};
}

}  // namespace outrider
