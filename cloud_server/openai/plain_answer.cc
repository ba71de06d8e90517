// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/openai/plain_answer.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

#include "common/serving/conversation/answer_length.h"
#include "common/serving/conversation/bad_words.h"

namespace outrider {
namespace {

// Tokens between acknowledgements: far fewer than a verifier runs ahead.
constexpr Position kAckEvery = 64;

// The names that edges give to the endings of answers.
constexpr std::string_view kEndedByLength = "length";
constexpr std::string_view kEndedByStop = "stop_token";
constexpr std::string_view kEndedByText = "stop_string";

}  // namespace

Result<PlainAnswer> PlainAnswer::begin(const Tokenizer& tokenizer, EncodedPrompt prompt,
                                       const CompletionParams& params, Position context,
                                       std::string tokenizer_hash) {
  OUTRIDER_RETURN_IF_ERROR(validate(params.text.choice.sampling));
  ChoiceSettings settings = params.text.choice.settings;
  OUTRIDER_ASSIGN_OR_RETURN(auto words, bad_word_tokens(tokenizer, params.text.bad_words));
  std::ranges::move(words, std::back_inserter(settings.bad_words));
  OUTRIDER_RETURN_IF_ERROR(validate(settings, tokenizer.vocab_size()));
  OUTRIDER_ASSIGN_OR_RETURN(StopStrings stops, StopStrings::create(params.text.stop));
  const auto length = static_cast<Position>(prompt.ids.size());
  if (length == 0) return invalid_argument("the prompt is empty; write something");
  OUTRIDER_RETURN_IF_ERROR(check_prompt_fits(length, context));
  Open open;
  open.tokenizer_hash = std::move(tokenizer_hash);
  open.sampling = params.text.choice.sampling;
  open.seed = params.text.choice.seed;
  open.service_tier = params.text.service_tier;
  open.prefix = std::move(prompt.ids);
  open.set_settings(settings, length);
  open.top_logprobs = params.text.top_logprobs;
  open.prompt_logprobs = params.text.prompt_logprobs;
  open.end_position = answer_end(length, params.text.max_tokens, context);
  open.stop_ids = all_stop_ids(params.text, std::move(prompt.stop_ids));
  open.ignore_target_stops = params.text.ignore_eos;
  open.policy.pass_policy = PassPolicy::kEager;  // the client has no draft, the server may
  open.accepts_server_nodes = true;
  PlainAnswer answer(std::move(open),
                     StreamedText(tokenizer, std::move(stops), std::move(prompt.shown_ids)));
  answer.end_ = answer.acked_ = length;
  answer.prompt_tokens_ = static_cast<std::size_t>(length);
  return answer;
}

void PlainAnswer::record_by(const Recorder& recorder, std::string template_hash) {
  RecordTerms terms = record_terms(open_, open_.prefix);
  terms.template_hash = std::move(template_hash);
  recording_.emplace(recorder.begin(std::move(terms)));
  open_.wants_digests = true;
}

PlainAnswer::Step PlainAnswer::on_message(const ServerMessage& message) {
  Step step;
  if (over_) return step;
  if (const auto* scored = std::get_if<PromptLogprobs>(&message)) {
    step.prompt_logprobs = scored->logprobs;
  }
  if (const auto* opened = std::get_if<Opened>(&message)) {
    if (recording_) recording_->on_opened(*opened);
    open_.replaced_session = opened->session_id;  // where it is opened again
    stop_ids_ = opened->stop_ids;
  }
  // A verifier that shuts down lets its sessions finish, and opens no other.
  if (std::holds_alternative<Notice>(message) && track_) track_->stay();
  if (const auto* verdict = std::get_if<Verdict>(&message)) on_verdict(*verdict, step);
  if (const auto* usage = std::get_if<Usage>(&message)) {
    over_ = true;
    if (usage->reason == FinishReason::kCancelled || usage->reason == FinishReason::kError) {
      step.failure = unavailable("the answer was cut off; repeat the request");
      return step;
    }
    if (std::string rest = text_.finish(); !rest.empty()) {
      step.pieces.push_back({.text = std::move(rest), .has_token = false});
    }
    cached_tokens_ = std::min<std::uint64_t>(usage->cached_tokens, prompt_tokens_);
    const bool by_length = usage->reason == FinishReason::kLength;
    finish(step, by_length ? kEndedByLength : kEndedByStop);
  }
  return step;
}

void PlainAnswer::on_verdict(const Verdict& verdict, Step& step) {
  for (std::size_t i = 0; i < verdict.tokens.size(); ++i) {
    const TokenId token = verdict.tokens[i];
    ++tokens_;
    ++end_;
    AnswerText::Update update = text_.push(token);
    AnswerPiece& piece =
        step.pieces.emplace_back(AnswerPiece{.text = std::move(update.text), .id = token});
    if (i < verdict.logprobs.size()) piece.logprobs = verdict.logprobs[i];
    if (track_) said_.push_back(token);
    const std::optional<std::size_t> level = track_ ? track_->push(token) : std::nullopt;
    const bool goes_on = level && end_ != open_.end_position &&
                         std::ranges::find(stop_ids_, token) == stop_ids_.end();
    if (!update.stopped && !goes_on) continue;
    if (recording_) recording_->on_verdict(verdict, i + 1);
    if (!update.stopped) return go_on_with(*level, step);
    over_ = true;
    step.reply = EdgeMessage{.acked_position = end_, .body = Cancel{}};
    finish(step, kEndedByText);
    return;
  }
  if (recording_) recording_->on_verdict(verdict, verdict.tokens.size());
  if (end_ - acked_ < kAckEvery) return;
  acked_ = end_;
  step.reply = EdgeMessage{.acked_position = end_, .body = AckOnly{}};
}

// The rest of the verdict is dropped: the other level says what follows this token.
void PlainAnswer::go_on_with(std::size_t level, Step& step) {
  track_->go_on_with(level);
  open_.level = track_->name();
  open_.prefix.insert(open_.prefix.end(), said_.begin(), said_.end());
  open_.prompt_logprobs = false;  // they were told
  said_.clear();
  acked_ = end_;
  step.level = level;
}

void PlainAnswer::finish(Step& step, std::string_view ending) {
  step.end = AnswerEnd{.by_length = ending == kEndedByLength,
                       .stop_text = text_.stop_string(),
                       .usage = {.prompt_tokens = prompt_tokens_,
                                 .cached_tokens = cached_tokens_,
                                 .completion_tokens = tokens_},
                       .seed = told_seed({open_.sampling, open_.seed}),
                       .figures = {{"speculation", "OFF because this server has no draft"}}};
  if (!recording_) return;
  step.record = recording_->finish(std::string(ending));
  step.end->record = step.record.lines;
}

}  // namespace outrider
