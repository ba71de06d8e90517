// The reply to one request, which one choice or several write: whole once all have ended, or as
// server-sent events.
//
// Thread rule: any thread. Ownership: shares the exchange; the choices share it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/serving/http/exchange.h"
#include "common/serving/openai/completion_answer.h"
#include "common/serving/openai/message_writer.h"
#include "common/serving/openai/response_writer.h"

namespace outrider {

// The failure; that of a prompt beyond the context has its field, and begins with words by which
// LiteLLM and others recognise it: they then shorten the conversation or take another model.
Status with_prompt_field(const Status& status, Api api);

class CompletionReply final {
 public:
  // choices: that write it.
  CompletionReply(std::shared_ptr<HttpExchange> exchange, AnswerName name, AnswerExtras extras,
                  bool is_stream, std::size_t choices)
      : name_(std::move(name)),
        extras_(extras),
        is_stream_(is_stream),
        choices_(choices),
        exchange_(std::move(exchange)),
        writer_(name_.api == Api::kResponses  ? response_writer(name_, extras_)
                : name_.api == Api::kMessages ? message_writer(name_, extras_)
                                              : choices_writer(name_, extras_)) {}

  // Sends the head of a stream, once. Does nothing for a whole answer.
  void begin();
  // Sends what tokens add to a stream, and how it would continue. Return the bytes that are sent;
  // nothing: the reply is over, or its client gone or too slow.
  std::optional<std::size_t> show(const AnswerPart& part);
  std::optional<std::size_t> show_unverified(std::size_t index, const std::string& continuation,
                                             bool whole);
  // How one choice ended; the last one ends the reply. Returns the bytes that this sends.
  std::size_t end(AnswerChoice choice);
  // Ends the reply for all choices. retry_after: as error_response().
  void fail(const Status& status, std::optional<Duration> retry_after);
  // Tells the reader of a stream what its client skips: nothing of a whole answer, nor before it
  // has begun.
  void comment(std::string text);
  // Sends such a comment if nothing was sent for this long.
  void keep_alive(Duration silence);
  // Closes the connection without an event.
  void abandon();
  // Whether nobody reads what a choice says: its client is gone, or the reply is over.
  bool is_over();

  const AnswerName& name() const { return name_; }
  const AnswerExtras& extras() const { return extras_; }
  bool is_stream() const { return is_stream_; }
  std::size_t choices() const { return choices_; }

 private:
  void begin_locked() OUTRIDER_REQUIRES(mu_);
  bool write_locked(const std::string& bytes) OUTRIDER_REQUIRES(mu_);
  std::optional<std::size_t> send_locked(const std::string& event) OUTRIDER_REQUIRES(mu_);

  const AnswerName name_;
  const AnswerExtras extras_;
  const bool is_stream_;
  const std::size_t choices_;
  const std::shared_ptr<HttpExchange> exchange_;
  Mutex mu_;
  std::unique_ptr<AnswerWriter> writer_ OUTRIDER_GUARDED_BY(mu_);
  bool begun_ OUTRIDER_GUARDED_BY(mu_) = false;  // the head of a stream was sent
  bool over_ OUTRIDER_GUARDED_BY(mu_) = false;
  TimePoint last_write_ OUTRIDER_GUARDED_BY(mu_) = {};
  std::map<std::size_t, AnswerChoice> ended_ OUTRIDER_GUARDED_BY(mu_);  // by index
};

}  // namespace outrider
