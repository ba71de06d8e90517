// Answers one request of an OpenAI client with the target alone: makes the request to the verifier,
// and turns its messages into text for the client.
//
//   answer.open()  (answer.on_message(message) -> Step)*
//
// Pure: holds neither engine nor connection. Thread rule: one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/decoding/protocol/messages.h"
#include "common/serving/conversation/conversation.h"
#include "common/serving/conversation/streamed_text.h"
#include "common/serving/openai/completion_answer.h"
#include "common/serving/openai/completion_request.h"
#include "common/serving/record/recorder.h"

namespace outrider {

class PlainAnswer final {
 public:
  // The reaction to a message of the verifier.
  struct Step {
    std::vector<AnswerPiece> pieces = {};             // may be shown now
    std::vector<TokenLogprobs> prompt_logprobs = {};  // of the prompt's next tokens, before those
    std::optional<EdgeMessage> reply = {};            // to the verifier
    std::optional<AnswerEnd> end = {};                // the answer is complete
    RecordLines record = {};                          // with that, where it is recorded
    Status failure = {};                              // the answer was cut
  };

  // tokenizer: outlives this. context: tokens of prompt and answer that the target holds. Errors:
  // INVALID_ARGUMENT for invalid stop strings, and for a prompt that leaves no room.
  static Result<PlainAnswer> begin(const Tokenizer& tokenizer, EncodedPrompt prompt,
                                   const CompletionParams& params, Position context,
                                   std::string tokenizer_hash);
  // Before open(): the answer is recorded. recorder: outlives this. template_hash: of what wrote
  // the prompt.
  void record_by(const Recorder& recorder, std::string template_hash);

  // The first message to the verifier.
  EdgeMessage open() const { return {.body = open_}; }
  Step on_message(const ServerMessage& message);

  // All text shown so far.
  const std::string& text() const { return text_.text(); }

 private:
  PlainAnswer(Open open, StreamedText text) : open_(std::move(open)), text_(std::move(text)) {}
  void on_verdict(const Verdict& verdict, Step& step);
  // ending: as edges name it.
  void finish(Step& step, std::string_view ending);

  Open open_;
  StreamedText text_;
  Position end_ = 0;  // of the text, according to the verdicts
  Position acked_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  bool over_ = false;
  std::optional<AnswerRecording> recording_;  // nothing: it is not recorded
};

}  // namespace outrider
