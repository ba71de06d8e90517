// Sends one answer, a choice of a reply, to the client that requested it: whole, or as server-sent
// events.
//
//   begin? show* end         show_unverified() at most once, of a stream, before the end
//   begin? show* fail        an error response if nothing was sent yet, else an event, and the
//                            body has no last chunk: it does not look complete
//
// Thread rule: one thread at a time; comment(), keep_alive() and client_is_gone() from any once it
// has begun. Ownership: shares the reply. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/serving/openai/completion_answer.h"
#include "common/serving/openai/completion_reply.h"
#include "common/serving/openai/token_logprobs.h"
#include "common/serving/tools/answer_parser.h"

namespace outrider {

class CompletionResponder final {
 public:
  struct Form {
    std::size_t index = 0;  // of the choice
    std::uint64_t prompt_tokens = 0;
    AnswerSyntax syntax = {};      // of the text that it shows
    std::string begins_with = {};  // is shown before the text
    bool counts_prompt = true;  // in the reply's usage; of the choices of one prompt the first does
    std::optional<LogprobsForm> logprobs = {};  // nothing: none are wanted
    bool shows_answer = true;                   // else it is `begins_with` alone
  };
  CompletionResponder(std::shared_ptr<CompletionReply> reply, Form form)
      : reply_(std::move(reply)), form_(std::move(form)), parser_(form_.syntax) {
    so_far_.prompt_tokens = form_.prompt_tokens;
  }

  // Sends the head of a stream, once. Does nothing for a whole answer.
  void begin() { reply_->begin(); }
  // The log-probabilities of the prompt's next tokens, before the first token is shown.
  void show_prompt(std::span<const TokenLogprobs> logprobs) {
    if (form_.logprobs) form_.logprobs->add_prompt(logprobs);
  }
  // Tokens as they are committed. False: the client is gone, or reads too slowly.
  bool show(std::span<const AnswerPiece> pieces);
  // Does nothing for a whole answer.
  void show_unverified(const std::string& continuation, bool whole);
  void end(AnswerEnd end);
  // Ends the reply, for its other choices too. retry_after: of RESOURCE_EXHAUSTED and UNAVAILABLE,
  // see error_response().
  void fail(const Status& status, std::optional<Duration> retry_after = std::nullopt) {
    reply_->fail(status, retry_after);
  }
  void comment(std::string text) { reply_->comment(std::move(text)); }
  void keep_alive(Duration silence) { reply_->keep_alive(silence); }
  // Closes the connection without an event.
  void abandon() { reply_->abandon(); }

  // Also where the reply has failed.
  bool client_is_gone() { return reply_->is_over(); }
  // The answer's id, with the choice's index where it is not the first.
  std::string id() const;
  bool is_stream() const { return reply_->is_stream(); }
  bool wants_figures() const { return reply_->extras().figures; }
  bool wants_record() const { return reply_->extras().record; }
  // Bytes of answer text and events since the last call.
  std::uint64_t take_bytes_sent() { return bytes_sent_.exchange(0); }

 private:
  bool add(AnswerDelta delta, std::span<const AnswerPiece> pieces);

  const std::shared_ptr<CompletionReply> reply_;
  Form form_;
  AnswerParser parser_;
  AnswerDelta whole_;                          // of an answer that is not streamed
  nlohmann::ordered_json logprobs_ = nullptr;  // the same
  AnswerUsage so_far_;
  std::atomic<std::uint64_t> bytes_sent_{0};
};

}  // namespace outrider
