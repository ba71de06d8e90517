// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_reply.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/serving/conversation/answer_length.h"
#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

// Clients skip lines of server-sent events that begin with a colon.
constexpr char kComment[] = ": still here\n\n";
constexpr char kCut[] = "this server is shutting down; repeat the request";

}  // namespace

Status with_prompt_field(const Status& status, Api api) {
  StatusDetail detail = status.detail();
  if (detail.reason != kContextExceeded || !detail.field.empty()) return status;
  detail.field = prompt_field(api);
  return Status(status.code(), "prompt is too long: " + status.message())
      .with_detail(std::move(detail));
}

void CompletionReply::begin() {
  const MutexLock lock(mu_);
  begin_locked();
}

void CompletionReply::begin_locked() {
  if (!is_stream_ || over_ || std::exchange(begun_, true)) return;
  last_write_ = std::chrono::steady_clock::now();
  exchange_->begin({.status = 200,
                    .body = writer_->first_events(choices_),
                    .content_type = "text/event-stream",
                    .headers = {{"Cache-Control", "no-cache"}}},
                   {.filler = kComment, .cut = writer_->error_event(unavailable(kCut))});
}

std::optional<std::size_t> CompletionReply::show(const AnswerPart& part) {
  const MutexLock lock(mu_);
  begin_locked();
  return send_locked(writer_->delta_event(part));
}

std::optional<std::size_t> CompletionReply::show_unverified(std::size_t index,
                                                            const std::string& continuation,
                                                            bool whole) {
  const MutexLock lock(mu_);
  begin_locked();
  return send_locked(writer_->unverified_event(index, continuation, whole));
}

std::optional<std::size_t> CompletionReply::send_locked(const std::string& event) {
  if (!event.empty() && !write_locked(event)) return std::nullopt;
  return event.size();
}

bool CompletionReply::write_locked(const std::string& bytes) {
  if (over_) return false;
  last_write_ = std::chrono::steady_clock::now();
  return exchange_->write(bytes);
}

std::size_t CompletionReply::end(AnswerChoice choice) {
  const MutexLock lock(mu_);
  if (over_) return 0;
  begin_locked();
  std::string bytes;
  if (is_stream_) bytes = writer_->last_event(choice.index, choice.end);
  const std::size_t index = choice.index;
  ended_[index] = std::move(choice);
  if (ended_.size() == choices_) {
    std::vector<AnswerChoice> all;
    for (auto& [_, ended] : ended_) all.push_back(std::move(ended));
    bytes += is_stream_ ? writer_->stream_end(all) : writer_->whole_answer(all);
  }
  const std::size_t size = bytes.size();
  if (is_stream_) write_locked(bytes);
  if (ended_.size() < choices_) return size;
  over_ = true;
  if (is_stream_) {
    exchange_->end();
  } else {
    exchange_->respond(
        {.status = 200, .body = std::move(bytes), .content_type = "application/json"});
  }
  return size;
}

void CompletionReply::fail(const Status& why, std::optional<Duration> retry_after) {
  const MutexLock lock(mu_);
  if (std::exchange(over_, true)) return;
  const Status status = with_prompt_field(why, name_.api);
  if (!begun_) {
    return exchange_->respond(error_response(status, retry_after, error_form_of(name_.api)));
  }
  exchange_->write(writer_->error_event(status));
  exchange_->cut();
}

void CompletionReply::comment(std::string text) {
  const MutexLock lock(mu_);
  if (!begun_) return;
  std::ranges::replace_if(
      text, [](char c) { return c == '\r' || c == '\n'; }, ' ');
  write_locked(": " + text + "\n\n");
}

void CompletionReply::keep_alive(Duration silence) {
  const MutexLock lock(mu_);
  if (!begun_ || std::chrono::steady_clock::now() - last_write_ < silence) return;
  write_locked(kComment);
}

void CompletionReply::abandon() {
  const MutexLock lock(mu_);
  if (std::exchange(over_, true)) return;
  exchange_->abort();
}

bool CompletionReply::is_over() {
  const MutexLock lock(mu_);
  return over_ || exchange_->client_is_gone();
}

}  // namespace outrider
