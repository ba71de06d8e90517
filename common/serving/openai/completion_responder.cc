// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_responder.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/random_id.h"
#include "common/serving/conversation/answer_length.h"

namespace outrider {
namespace {

// Clients skip lines of server-sent events that begin with a colon.
constexpr char kComment[] = ": still here\n\n";
constexpr char kCut[] = "this server is shutting down; repeat the request";

// Nine letters and digits, the form that Mistral's templates insist on.
std::string new_call_id() {
  constexpr std::size_t kLength = 9;
  return random_id().substr(0, kLength);
}

}  // namespace

Status with_prompt_field(const Status& status, bool is_chat) {
  StatusDetail detail = status.detail();
  if (detail.reason != kContextExceeded || !detail.field.empty()) return status;
  detail.field = is_chat ? "messages" : "prompt";
  return status.with_detail(std::move(detail));
}

bool CompletionResponder::write(const std::string& bytes) {
  bytes_sent_ += bytes.size();
  last_write_ = std::chrono::steady_clock::now();
  return exchange_->write(bytes);
}

void CompletionResponder::begin() {
  if (!form_.stream || begun_.exchange(true)) return;
  last_write_ = std::chrono::steady_clock::now();
  exchange_->begin({.status = 200,
                    .body = first_event(name_, form_.extras),
                    .content_type = "text/event-stream",
                    .headers = {{"Cache-Control", "no-cache"}}},
                   {.filler = kComment, .cut = error_event(unavailable(kCut))});
}

void CompletionResponder::comment(std::string text) {
  if (!begun_) return;
  std::ranges::replace_if(
      text, [](char c) { return c == '\r' || c == '\n'; }, ' ');
  write(": " + text + "\n\n");
}

void CompletionResponder::keep_alive(Duration silence) {
  if (!begun_ || std::chrono::steady_clock::now() - last_write_.load() < silence) return;
  write(kComment);
}

bool CompletionResponder::show(std::span<const AnswerPiece> pieces) {
  std::string text;
  for (const AnswerPiece& piece : pieces) {
    text += piece.text;
    so_far_.completion_tokens += piece.has_token ? 1 : 0;
    so_far_.accepted_tokens += piece.drafted ? 1 : 0;
  }
  return add(parser_.push(text), pieces);
}

bool CompletionResponder::add(AnswerDelta delta, std::span<const AnswerPiece> pieces) {
  for (CallDelta& call : delta.calls) {
    if (!call.name.empty()) call.id = new_call_id();
  }
  if (form_.stream) {
    const std::string event = delta_event(name_, form_.extras, delta, pieces, so_far_);
    if (event.empty()) return true;
    begin();
    return write(event);
  }
  whole_.reasoning += delta.reasoning;
  whole_.content += delta.content;
  for (CallDelta& call : delta.calls) {
    if (call.name.empty()) {
      whole_.calls.back().arguments += call.arguments;
    } else {
      whole_.calls.push_back(std::move(call));
    }
  }
  return true;
}

void CompletionResponder::show_unverified(const std::string& continuation, bool whole) {
  if (!form_.stream) return;
  begin();
  AnswerParser copy = parser_;
  AnswerDelta delta = copy.push(continuation);
  if (whole) delta.content += copy.finish().content;
  write(unverified_event(name_, form_.extras, delta.content, whole));
}

void CompletionResponder::end(AnswerEnd end) {
  add(parser_.finish(), {});
  end.by_calls = !end.by_length && parser_.has_whole_calls();
  if (form_.stream) {
    begin();
    write(last_events(name_, form_.extras, end));
    exchange_->end();
    return;
  }
  std::string body = whole_answer(name_, form_.extras, whole_, end);
  bytes_sent_ += body.size();
  exchange_->respond({.status = 200, .body = std::move(body), .content_type = "application/json"});
}

void CompletionResponder::fail(const Status& why, std::optional<Duration> retry_after) {
  const Status status = with_prompt_field(why, name_.is_chat);
  if (!begun_) return exchange_->respond(error_response(status, retry_after));
  exchange_->write(error_event(status));
  exchange_->cut();
}

}  // namespace outrider
