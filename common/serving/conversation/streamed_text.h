// Implements AnswerText with a streaming detokenizer and stop strings.
//
// Thread rule: owned by the session's thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "common/engine/text/streaming_detokenizer.h"
#include "common/serving/conversation/answer_text.h"
#include "common/serving/conversation/stop_strings.h"

namespace outrider {

class StreamedText final : public AnswerText {
 public:
  // The tokenizer must outlive this.
  StreamedText(const Tokenizer& tokenizer, StopStrings stops)
      : state_{StreamingDetokenizer(tokenizer), std::move(stops)} {}

  Update push(TokenId token) override;
  Update preview(std::span<const TokenId> tokens, bool ends) const override;
  std::string finish() override;

  // All text returned so far.
  const std::string& text() const { return text_; }
  // The stop string that ended the answer; empty if none did.
  std::string stop_string() const { return state_.stops.stopped() ? state_.stops.matched() : ""; }

 private:
  // The state on which the next tokens' text depends, without the text so far. A preview copies it.
  struct State {
    StreamingDetokenizer detokenizer;
    StopStrings stops;
    std::string push(TokenId token);
    std::string finish();
  };

  State state_;
  std::string text_;
};

}  // namespace outrider
