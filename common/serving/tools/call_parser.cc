// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/call_parser.h"

#include <algorithm>
#include <utility>

namespace outrider {
std::size_t begun_mark(std::string_view text, std::string_view mark) {
  for (std::size_t length = std::min(text.size(), mark.size()); length > 0; --length) {
    if (mark.starts_with(text.substr(text.size() - length))) return length;
  }
  return 0;
}

CallParser::Reader CallParser::reader(bool is_unmarked) const {
  switch (format_->arguments) {
    case CallArguments::kTagged:
      return TaggedCalls(*format_, *tools_);
    case CallArguments::kPython:
      return PythonCalls(*tools_, is_unmarked);
    case CallArguments::kJson:
      break;
  }
  return JsonCalls(*format_, *tools_, is_unmarked);
}

std::string CallParser::push(std::string_view text, CallDeltas& calls) {
  text_ += text;
  std::string shown;
  while (step(shown, calls)) {
  }
  return shown;
}

std::string CallParser::finish(CallDeltas& calls) {
  std::string shown = push("", calls);
  if (state_ == State::kCall) {
    if (calls.begun() == begun_before_) shown += opened_ + text_;
  } else if (state_ != State::kBetween) {
    shown += text_;
  }
  text_.clear();
  return shown;
}

// False: more text is needed.
bool CallParser::step(std::string& shown, CallDeltas& calls) {
  switch (state_) {
    case State::kStart:
      return step_start(calls);
    case State::kText:
      return step_text(shown, calls);
    case State::kCall:
      return step_call(shown, calls);
    case State::kBetween:
      break;
  }
  return step_between(shown, calls);
}

void CallParser::open(std::string_view mark, bool is_unmarked, const CallDeltas& calls) {
  opened_ = mark;
  begun_before_ = calls.begun();
  reader_ = reader(is_unmarked);
  state_ = State::kCall;
}

// The answer may begin with a call that no mark opens.
bool CallParser::step_start(const CallDeltas& calls) {
  state_ = State::kText;
  if (format_->reads_unmarked()) open("", /*is_unmarked=*/true, calls);
  return true;
}

// White space before a mark is held back too: it is not the text's.
bool CallParser::step_text(std::string& shown, const CallDeltas& calls) {
  const auto begins = [this](std::string_view mark) {
    return mark.empty() ? std::string::npos : text_.find(mark);
  };
  const std::size_t section = begins(format_->section), call = begins(format_->open);
  const std::size_t mark = std::min(section, call);
  if (mark != std::string::npos) {
    const std::string_view found = call <= section ? format_->open : format_->section;
    const std::string_view before = std::string_view(text_).substr(0, mark);
    const std::size_t certain = before.find_last_not_of(kSpaces) + 1;
    shown += before.substr(0, certain);
    open(text_.substr(certain, mark + found.size() - certain), /*is_unmarked=*/false, calls);
    text_.erase(0, mark + found.size());
    if (section < call) state_ = State::kBetween;
    return true;
  }
  const std::size_t held =
      std::max(begun_mark(text_, format_->section), begun_mark(text_, format_->open));
  std::size_t certain = text_.size() - held;
  while (certain > 0 && std::string_view(kSpaces).find(text_[certain - 1]) != std::string::npos) {
    --certain;
  }
  shown += text_.substr(0, certain);
  text_.erase(0, certain);
  return false;
}

bool CallParser::step_call(std::string& shown, CallDeltas& calls) {
  const auto read = [&](auto& each) { return each.read(text_, calls); };
  switch (std::visit(read, *reader_)) {
    case CallReading::kNeedsMore:
      return false;
    case CallReading::kNoCall:
      shown += opened_;
      state_ = State::kText;
      return true;
    case CallReading::kDone:
      break;
  }
  state_ = calls.begun() == 0 ? State::kText : State::kBetween;
  return true;
}

// Marks and separators between calls are passed over; other text is plain again.
bool CallParser::step_between(std::string& shown, const CallDeltas& calls) {
  text_.erase(0, text_.find_first_not_of(" \n\r\t,;"));
  if (text_.empty()) return false;
  bool may_come = false;
  for (const std::string_view mark :
       {format_->open, format_->close, format_->section, format_->section_end}) {
    if (mark.empty()) continue;
    // A mark may begin with white space, which was passed over.
    const std::string_view rest = mark.substr(mark.find_first_not_of(kSpaces));
    may_come |= rest.starts_with(text_);
    if (!text_.starts_with(rest)) continue;
    text_.erase(0, rest.size());
    if (mark == format_->open) open(mark, /*is_unmarked=*/false, calls);
    return true;
  }
  if (may_come) return false;
  if (format_->reads_unmarked() && format_->arguments == CallArguments::kJson &&
      (text_.front() == '{' || text_.front() == '`')) {
    open("", /*is_unmarked=*/true, calls);
    return true;
  }
  if (calls.begun() == begun_before_) shown += opened_;  // it opened nothing
  state_ = State::kText;
  return true;
}

}  // namespace outrider
