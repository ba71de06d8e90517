// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/answer_parser.h"

#include <utility>

namespace outrider {
namespace {

std::string_view without_end_spaces(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}

}  // namespace

const std::vector<AnswerParser::Marks>& AnswerParser::all_marks() {
  static const std::vector<Marks> kMarks = {
      {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}};
  return kMarks;
}

void AnswerDelta::append(AnswerDelta more) {
  reasoning += more.reasoning;
  content += more.content;
  for (CallDelta& call : more.calls) {
    if (call.name.empty() && !calls.empty() && calls.back().index == call.index) {
      calls.back().arguments += call.arguments;
    } else {
      calls.push_back(std::move(call));
    }
  }
}

std::vector<std::string_view> AnswerSyntax::marks() const {
  std::vector<std::string_view> all;
  if (calls != nullptr) all = calls->marks();
  if (!reads_reasoning) return all;
  for (const AnswerParser::Marks& marks : AnswerParser::all_marks()) {
    all.insert(all.end(), {marks.begin, marks.end});
  }
  return all;
}

AnswerParser::AnswerParser(AnswerSyntax syntax) : syntax_(std::move(syntax)) {
  if (syntax_.calls != nullptr) parser_.emplace(*syntax_.calls, syntax_.tools);
  if (!syntax_.reads_reasoning) return;
  state_ = State::kStart;
  const std::string_view end = without_end_spaces(syntax_.prompt_end);
  for (const Marks& marks : all_marks()) {
    if (!end.ends_with(marks.begin)) continue;
    marks_ = marks;
    state_ = State::kReasoning;
  }
}

AnswerDelta AnswerParser::push(std::string_view text) {
  text_ += text;
  AnswerDelta delta;
  while (step(delta)) {
  }
  take_calls(delta);
  return delta;
}

AnswerDelta AnswerParser::finish() {
  AnswerDelta delta = push("");
  if (state_ == State::kReasoning) {
    if (syntax_.shows_reasoning) delta.reasoning += without_end_spaces(text_);
  } else {
    delta.content += parser_ ? parser_->push(text_, calls_) : text_;
  }
  text_.clear();
  if (parser_) delta.content += parser_->finish(calls_);
  take_calls(delta);
  return delta;
}

bool AnswerParser::step(AnswerDelta& delta) {
  switch (state_) {
    case State::kStart:
      return step_start();
    case State::kReasoning:
      return step_reasoning(delta);
    case State::kBehind:
      return step_behind();
    case State::kText:
      break;
  }
  delta.content += parser_ ? parser_->push(text_, calls_) : text_;
  text_.clear();
  return false;
}

bool AnswerParser::step_start() {
  const std::size_t first = text_.find_first_not_of(kSpaces);
  if (first == std::string::npos) return false;
  const std::string_view rest = std::string_view(text_).substr(first);
  for (const Marks& marks : all_marks()) {
    if (marks.begin.starts_with(rest) && rest.size() < marks.begin.size()) return false;
    if (!rest.starts_with(marks.begin)) continue;
    text_.erase(0, first + marks.begin.size());
    marks_ = marks;
    state_ = State::kReasoning;
    return true;
  }
  state_ = State::kText;
  return true;
}

// White space at both ends of the reasoning is not its own.
bool AnswerParser::step_reasoning(AnswerDelta& delta) {
  if (!any_reasoning_) text_.erase(0, text_.find_first_not_of(kSpaces));
  const std::size_t end = text_.find(marks_.end);
  const bool ends = end != std::string::npos;
  const std::string_view all = text_;
  const std::string_view certain =
      without_end_spaces(all.substr(0, ends ? end : all.size() - begun_mark(all, marks_.end)));
  if (syntax_.shows_reasoning) delta.reasoning += certain;
  any_reasoning_ |= !certain.empty();
  text_.erase(0, ends ? end + marks_.end.size() : certain.size());
  if (ends) state_ = State::kBehind;
  return ends;
}

// The text begins behind the white space that follows the reasoning.
bool AnswerParser::step_behind() {
  text_.erase(0, text_.find_first_not_of(kSpaces));
  if (text_.empty()) return false;
  state_ = State::kText;
  return true;
}

void AnswerParser::take_calls(AnswerDelta& delta) {
  for (CallDelta& call : calls_.take()) {
    if (syntax_.one_call && call.index > 0) continue;
    delta.calls.push_back(std::move(call));
  }
}

}  // namespace outrider
