// Answers one request of an OpenAI client with the target alone: makes the request to the verifier,
// and turns its messages into text for the client.
//
//   (answer.open()  (answer.on_message(message) -> Step)*)*
//
// Where an elastic target's next level goes on with the answer (level_track.h), it is opened again,
// with its text so far: a stream of that level takes the place of the one before.
//
// Pure: holds neither engine nor connection. Thread rule: one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/decoding/levels/level_track.h"
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
    std::optional<std::size_t> level = {};            // the answer is to be opened again, at this
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

  // Before open(): this level of the target answers. Without it the full one does.
  void answer_by(std::string level) { open_.level = std::move(level); }
  // Levels may share the answer.
  void follow(LevelTrack track) { track_ = std::move(track); }

  // The first message to the verifier.
  EdgeMessage open() const { return {.body = open_}; }
  Step on_message(const ServerMessage& message);

  std::size_t prompt_tokens() const { return prompt_tokens_; }
  // All text shown so far.
  const std::string& text() const { return text_.text(); }
  // The levels that went on with it; none: one level has answered alone.
  std::span<const LevelSwitch> switches() const {
    return track_ ? std::span(track_->switches()) : std::span<const LevelSwitch>();
  }

 private:
  PlainAnswer(Open open, StreamedText text) : open_(std::move(open)), text_(std::move(text)) {}
  void on_verdict(const Verdict& verdict, Step& step);
  void go_on_with(std::size_t level, Step& step);
  // ending: as edges name it.
  void finish(Step& step, std::string_view ending);

  Open open_;
  StreamedText text_;
  std::optional<LevelTrack> track_;  // nothing: no other level goes on with it
  std::vector<TokenId> said_;        // since open(), where another one may
  std::vector<TokenId> stop_ids_;    // the target's and the request's
  std::size_t prompt_tokens_ = 0;
  Position end_ = 0;  // of the text, according to the verdicts
  Position acked_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  bool over_ = false;
  std::optional<AnswerRecording> recording_;  // nothing: it is not recorded
};

}  // namespace outrider
