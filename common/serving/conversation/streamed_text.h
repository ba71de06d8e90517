// Implements AnswerText with a streaming detokenizer and stop strings.
//
// Thread rule: owned by the session's thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/text/streaming_detokenizer.h"
#include "common/serving/conversation/answer_text.h"
#include "common/serving/conversation/stop_strings.h"

namespace outrider {

class StreamedText final : public AnswerText {
 public:
  // The tokenizer must outlive this. shown_ids: the special tokens that have a text, few of them.
  StreamedText(const Tokenizer& tokenizer, StopStrings stops, std::vector<TokenId> shown_ids = {})
      : tokenizer_(tokenizer),
        shown_ids_(std::move(shown_ids)),
        state_{StreamingDetokenizer(tokenizer, /*skip_special=*/false), std::move(stops)} {}

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

  bool is_shown(TokenId token) const;

  const Tokenizer& tokenizer_;
  const std::vector<TokenId> shown_ids_;
  State state_;
  std::string text_;
};

}  // namespace outrider
