// Sends one answer to the client that requested it: whole, or as server-sent events.
//
//   begin? show* end         show_unverified() at most once, of a stream, before the end
//   begin? show* fail        an error response if nothing was sent yet, else an event, and the
//                            body has no last chunk: it does not look complete
//
// Thread rule: one thread at a time; comment(), keep_alive() and client_is_gone() from any once it
// has begun. Ownership: shares the exchange. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/serving/http/error_response.h"
#include "common/serving/http/exchange.h"
#include "common/serving/openai/completion_answer.h"
#include "common/serving/tools/answer_parser.h"

namespace outrider {

// The failure, and of a prompt that is too long the field that clients know: messages or prompt.
Status with_prompt_field(const Status& status, bool is_chat);

class CompletionResponder final {
 public:
  struct Form {
    bool stream = false;
    AnswerExtras extras = {};
    std::uint64_t prompt_tokens = 0;
    AnswerSyntax syntax = {};  // of the text that it shows
  };
  CompletionResponder(std::shared_ptr<HttpExchange> exchange, AnswerName name, Form form)
      : exchange_(std::move(exchange)),
        name_(std::move(name)),
        form_(std::move(form)),
        parser_(form_.syntax) {
    so_far_.prompt_tokens = form.prompt_tokens;
  }

  // Sends the head of a stream, once. Does nothing for a whole answer.
  void begin();
  // Tokens as they are committed. False: the client is gone, or reads too slowly.
  bool show(std::span<const AnswerPiece> pieces);
  // As unverified_event(); does nothing for a whole answer.
  void show_unverified(const std::string& continuation, bool whole);
  void end(AnswerEnd end);
  // retry_after: of RESOURCE_EXHAUSTED and UNAVAILABLE, see error_response().
  void fail(const Status& status, std::optional<Duration> retry_after = std::nullopt);
  // Tells the reader of a stream what its client skips: nothing of a whole answer, nor before it
  // has begun.
  void comment(std::string text);
  // Sends such a comment if nothing was sent for this long.
  void keep_alive(Duration silence);
  // Closes the connection without an event.
  void abandon() { exchange_->abort(); }

  bool client_is_gone() { return exchange_->client_is_gone(); }
  const AnswerName& name() const { return name_; }
  bool is_stream() const { return form_.stream; }
  bool wants_figures() const { return form_.extras.figures; }
  // Bytes of answer text and events since the last call.
  std::uint64_t take_bytes_sent() { return bytes_sent_.exchange(0); }

 private:
  bool write(const std::string& bytes);
  bool add(AnswerDelta delta, std::span<const AnswerPiece> pieces);

  const std::shared_ptr<HttpExchange> exchange_;
  const AnswerName name_;
  const Form form_;
  AnswerParser parser_;
  AnswerDelta whole_;  // of an answer that is not streamed
  AnswerUsage so_far_;
  std::atomic<std::uint64_t> bytes_sent_{0};
  std::atomic<TimePoint> last_write_{TimePoint{}};
  std::atomic<bool> begun_{false};  // the head of a stream was sent
};

}  // namespace outrider
