// The answer so far: its tokens, its text, and whether it has come to its end.
//
// Thread rule: owned by the session. Ownership: the AnswerText outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/engine/sampling/logprobs.h"
#include "common/serving/conversation/answer_text.h"
#include "edge_client/session/events.h"

namespace outrider {

class Answer final {
 public:
  // end_position: as the user asked, counted over prompt and answer.
  Answer(AnswerText& text, Position prompt_length, Position end_position)
      : text_(text),
        prompt_length_(prompt_length),
        asked_end_(end_position),
        end_position_(end_position) {}

  Position prompt_length() const { return prompt_length_; }
  Position asked_end() const { return asked_end_; }
  // asked_end(), or the end of the target's context if that comes first.
  Position end_position() const { return end_position_; }
  const std::vector<TokenId>& ids() const { return ids_; }
  // The log-probabilities of each token of the answer; empty unless they were asked for.
  const std::vector<TokenLogprobs>& logprobs() const { return logprobs_; }
  // Those of the prompt's tokens but its first one: the same.
  const std::vector<TokenLogprobs>& prompt_logprobs() const { return prompt_logprobs_; }

  // The target's context holds this many positions.
  void limit_to(Position max_positions);

  struct Taken {
    Emit emit;
    bool stopped = false;  // a stop string is complete; later tokens were not taken
  };
  // Appends the tokens of a verdict. logprobs: of each of them, or none.
  Taken take(std::span<const TokenId> tokens, std::span<const TokenLogprobs> logprobs);
  // Those of the prompt, which go out with the first tokens.
  void take_prompt(std::vector<TokenLogprobs> logprobs) { prompt_logprobs_ = std::move(logprobs); }

  // How the committed text ends the answer, if it does. stop_ids: the target's and the user's.
  std::optional<Ending> natural_ending(std::span<const TokenId> stop_ids) const;

  // No more tokens will come. Returns the text that was held back, if any.
  std::optional<Emit> finish();

 private:
  AnswerText& text_;
  const Position prompt_length_;
  const Position asked_end_;
  Position end_position_;
  std::vector<TokenId> ids_;
  std::vector<TokenLogprobs> logprobs_;
  std::vector<TokenLogprobs> prompt_logprobs_;
};

}  // namespace outrider
