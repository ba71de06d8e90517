// Parts a model's text into plain text and tool calls, piece by piece.
//
//   CallParser parser(*find_call_format("hermes"), tools);
//   std::string shown = parser.push(piece, calls);   ..   shown = parser.finish(calls);
//
// Text that may be the beginning of a call is held back until that is decided. What looks like one
// and is none is plain text.
//
// Thread rule: one object, one thread; copies are independent. Ownership: the format outlives it;
// it shares the tools. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/serving/tools/call_format.h"
#include "common/serving/tools/call_readers.h"
#include "common/serving/tools/tool.h"

namespace outrider {

class CallParser final {
 public:
  CallParser(const CallFormat& format, std::shared_ptr<const Tools> tools)
      : format_(&format), tools_(std::move(tools)) {}

  // The plain text that can be shown now.
  std::string push(std::string_view text, CallDeltas& calls);
  // Ends the text; returns what was held back.
  std::string finish(CallDeltas& calls);

 private:
  using Reader = std::variant<JsonCalls, TaggedCalls, PythonCalls>;
  enum class State : std::uint8_t { kStart, kText, kCall, kBetween };

  Reader reader(bool is_unmarked) const;
  void open(std::string_view mark, bool is_unmarked, const CallDeltas& calls);
  bool step(std::string& shown, CallDeltas& calls);
  bool step_start(const CallDeltas& calls);
  bool step_text(std::string& shown, const CallDeltas& calls);
  bool step_call(std::string& shown, CallDeltas& calls);
  bool step_between(std::string& shown, const CallDeltas& calls);

  const CallFormat* format_;
  std::shared_ptr<const Tools> tools_;
  State state_ = State::kStart;
  std::optional<Reader> reader_;
  std::string opened_;            // what stands before the call that is being read,
  std::size_t begun_before_ = 0;  // and the number of calls before it
  std::string text_;              // is not read yet
};

}  // namespace outrider
