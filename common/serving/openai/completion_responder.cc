// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_responder.h"

#include <utility>

#include "common/base/random_id.h"

namespace outrider {
namespace {

// Nine letters and digits, the form that Mistral's templates insist on.
std::string new_call_id() {
  constexpr std::size_t kLength = 9;
  return random_id().substr(0, kLength);
}

}  // namespace

std::string CompletionResponder::id() const {
  const std::string& id = reply_->name().id;
  return form_.index == 0 ? id : id + "-" + std::to_string(form_.index);
}

bool CompletionResponder::write(const std::string& event) {
  bytes_sent_ += event.size();
  return reply_->write(event);
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
  delta.content.insert(0, std::exchange(form_.begins_with, {}));
  for (CallDelta& call : delta.calls) {
    if (!call.name.empty()) call.id = new_call_id();
  }
  nlohmann::ordered_json logprobs;
  if (form_.logprobs) logprobs = form_.logprobs->of(pieces);
  if (is_stream()) {
    const std::string event = delta_event(reply_->name(), reply_->extras(), form_.index, delta,
                                          pieces, so_far_, logprobs);
    return event.empty() || write(event);
  }
  LogprobsForm::append(logprobs_, logprobs);
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
  if (!is_stream()) return;
  AnswerParser copy = parser_;
  AnswerDelta delta = copy.push(continuation);
  if (whole) delta.content += copy.finish().content;
  write(unverified_event(reply_->name(), reply_->extras(), form_.index, delta.content, whole));
}

void CompletionResponder::end(AnswerEnd end) {
  add(parser_.finish(), {});
  end.by_calls = !end.by_length && parser_.has_whole_calls();
  end.counts_prompt = form_.counts_prompt;
  bytes_sent_ += reply_->end({.index = form_.index,
                              .delta = std::move(whole_),
                              .end = std::move(end),
                              .logprobs = std::move(logprobs_)});
}

}  // namespace outrider
