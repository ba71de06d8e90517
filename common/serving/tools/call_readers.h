// Read calls behind the mark that opens them, one class for each kind of arguments. A parser gives
// the text that it has; they take from its front what they understand.
//
// Thread rule: values; one thread each. Ownership: format and tools outlive them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/serving/tools/call_format.h"
#include "common/serving/tools/tool.h"

namespace outrider {

// Between the parts of a call.
inline constexpr char kSpaces[] = " \n\r\t";
// A longer name is none.
inline constexpr std::size_t kMaxNameBytes = 256;

enum class CallReading : std::uint8_t {
  kNeedsMore,
  kDone,   // the call is over, or a list of calls; what follows is left in the text
  kNoCall  // the text is no call: nothing was taken from it, and nothing was added
};

// An object with a name and arguments; a list of such; or, where the form has its name before, a
// name and the object of arguments.
class JsonCalls final {
 public:
  // is_unmarked: nothing opened the call, so it counts only if its name is a tool's.
  JsonCalls(const CallFormat& format, const Tools& tools, bool is_unmarked)
      : format_(&format), tools_(&tools), is_unmarked_(is_unmarked) {}
  CallReading read(std::string& text, CallDeltas& calls);

 private:
  enum class State : std::uint8_t { kStart, kObject, kArguments, kBetween };
  // Where the scanner is within a JSON value.
  struct Nesting {
    int depth = 0;
    bool in_string = false, escaped = false;
    void step(char c);
  };
  // The state of the object that is being read.
  struct Object {
    Nesting nesting = {};
    bool in_value = false, streams = false, is_named = false, has_arguments = false;
    std::string token = {}, key = {}, arguments = {};
  };

  CallReading start(const std::string& text);
  CallReading read_name(std::string& text, CallDeltas& calls);
  CallReading read_arguments(std::string& text, CallDeltas& calls);
  CallReading read_object(std::string& text, CallDeltas& calls);
  CallReading between(std::string& text);
  CallReading behind_fence(std::string& text);
  bool accepts(std::string_view name) const { return !is_unmarked_ || has_tool(*tools_, name); }
  bool take(char c, CallDeltas& calls);
  bool end_value(CallDeltas& calls);
  bool end_object(CallDeltas& calls);

  const CallFormat* format_;
  const Tools* tools_;
  bool is_unmarked_;
  State state_ = State::kStart;
  bool in_list_ = false;
  // Qwen 2.5 Coder's template shows {{"name": .., "arguments": ..}}, and the model may copy that,
  // or write a block of Markdown.
  bool doubled_ = false, fenced_ = false;
  bool any_ = false;      // a call was begun: from then on the text is taken
  std::size_t seen_ = 0;  // bytes of the text that were looked at before
  Object object_;
};

// NAME, then arguments between marks.
class TaggedCalls final {
 public:
  TaggedCalls(const CallFormat& format, const Tools& tools) : format_(&format), tools_(&tools) {}
  CallReading read(std::string& text, CallDeltas& calls);

 private:
  enum class State : std::uint8_t { kName, kArguments };
  CallReading read_name(std::string& text, CallDeltas& calls);
  CallReading read_argument(std::string& text, CallDeltas& calls, bool& any);
  std::string json_of(const std::string& key, std::string_view value) const;

  const CallFormat* format_;
  const Tools* tools_;
  State state_ = State::kName;
  std::string name_;
  bool has_arguments_ = false;
};

// A list of calls in Python's form, which is given when it is whole.
class PythonCalls final {
 public:
  PythonCalls(const Tools& tools, bool is_unmarked) : tools_(&tools), is_unmarked_(is_unmarked) {}
  CallReading read(std::string& text, CallDeltas& calls);

 private:
  const Tools* tools_;
  bool is_unmarked_;
};

// The number of bytes at the end of `text` that may be the beginning of `mark`.
std::size_t begun_mark(std::string_view text, std::string_view mark);

}  // namespace outrider
