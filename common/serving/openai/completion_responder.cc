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

bool CompletionResponder::show(std::span<const AnswerPiece> pieces) {
  if (!form_.shows_answer) pieces = {};
  AnswerDelta delta;
  for (const AnswerPiece& piece : pieces) {
    const bool thought = parser_.is_in_reasoning();
    delta.append(parser_.push(piece.text));
    const std::uint64_t tokens = piece.has_token ? 1 : 0;
    so_far_.completion_tokens += tokens;
    so_far_.accepted_tokens += piece.drafted ? 1 : 0;
    if (thought || parser_.is_in_reasoning()) so_far_.reasoning_tokens += tokens;
  }
  return add(std::move(delta), pieces);
}

bool CompletionResponder::add(AnswerDelta delta, std::span<const AnswerPiece> pieces) {
  delta.content.insert(0, std::exchange(form_.begins_with, {}));
  for (CallDelta& call : delta.calls) {
    if (!call.name.empty()) call.id = new_call_id();
  }
  nlohmann::ordered_json logprobs;
  if (form_.logprobs) logprobs = form_.logprobs->of(pieces);
  if (is_stream()) {
    const std::optional<std::size_t> sent = reply_->show({.index = form_.index,
                                                          .delta = delta,
                                                          .pieces = pieces,
                                                          .usage = so_far_,
                                                          .logprobs = logprobs});
    bytes_sent_ += sent.value_or(0);
    return sent.has_value();
  }
  LogprobsForm::append(logprobs_, logprobs);
  whole_.append(std::move(delta));
  return true;
}

void CompletionResponder::show_unverified(const std::string& continuation, bool whole) {
  if (!is_stream()) return;
  AnswerParser copy = parser_;
  AnswerDelta delta = copy.push(continuation);
  if (whole) delta.content += copy.finish().content;
  bytes_sent_ += reply_->show_unverified(form_.index, delta.content, whole).value_or(0);
}

void CompletionResponder::end(AnswerEnd end) {
  add(parser_.finish(), {});
  end.by_calls = !end.by_length && parser_.has_whole_calls();
  end.counts_prompt = form_.counts_prompt;
  end.usage.reasoning_tokens = so_far_.reasoning_tokens;
  if (!form_.shows_answer) {
    end.by_length = true;
    end.usage.completion_tokens = end.usage.accepted_tokens = 0;
  }
  bytes_sent_ += reply_->end({.index = form_.index,
                              .delta = std::move(whole_),
                              .end = std::move(end),
                              .logprobs = std::move(logprobs_)});
}

}  // namespace outrider
