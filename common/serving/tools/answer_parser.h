// Parts a model's answer into its reasoning, its text and its tool calls, piece by piece.
//
// Reasoning stands at the answer's start, between marks such as <think> and </think>; the prompt
// may have written the first one.
//
// Thread rule: one object, one thread; copies are independent. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/serving/tools/call_parser.h"
#include "common/serving/tools/tool.h"

namespace outrider {

// The parts of an answer that are read besides its text.
struct AnswerSyntax {
  const CallFormat* calls = nullptr;  // null: no calls are read
  std::shared_ptr<const Tools> tools = nullptr;
  bool one_call = false;  // calls behind the first one are left out
  bool reads_reasoning = false;
  bool shows_reasoning = true;  // else it is left out
  std::string prompt_end = {};  // the last bytes of the prompt's text

  bool reads_anything() const { return calls != nullptr || reads_reasoning; }
  // The marks that may be tokens of their own.
  std::vector<std::string_view> marks() const;
};

struct AnswerDelta {
  std::string reasoning = {};
  std::string content = {};
  std::vector<CallDelta> calls = {};
  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
  // Adds what follows it. Parts of a call that is begun here are joined.
  void append(AnswerDelta more);
};

class AnswerParser final {
 public:
  explicit AnswerParser(AnswerSyntax syntax);

  AnswerDelta push(std::string_view text);
  // Ends the answer; returns what was held back.
  AnswerDelta finish();

  bool is_in_reasoning() const { return state_ == State::kReasoning; }
  // Whether the answer has calls, all of them whole.
  bool has_whole_calls() const { return calls_.begun() > 0 && calls_.all_ended(); }

 private:
  struct Marks {
    std::string_view begin, end;
  };
  enum class State : std::uint8_t { kStart, kReasoning, kBehind, kText };
  static const std::vector<Marks>& all_marks();

  bool step(AnswerDelta& delta);
  bool step_start();
  bool step_reasoning(AnswerDelta& delta);
  bool step_behind();
  void take_calls(AnswerDelta& delta);

  AnswerSyntax syntax_;
  std::optional<CallParser> parser_;
  CallDeltas calls_;
  State state_ = State::kText;
  Marks marks_ = {};  // of the reasoning that is being read
  bool any_reasoning_ = false;
  std::string text_;  // is not read yet

  friend struct AnswerSyntax;
};

}  // namespace outrider
