// The tools that a request offers a model, and the calls that its answer makes of them.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outrider {

struct Tool {
  std::string name;
  nlohmann::ordered_json parameters = {};  // a JSON schema of the arguments; null: none is given
  bool strict = false;                     // its arguments must fit them
};
using Tools = std::vector<Tool>;

inline bool has_tool(const Tools& tools, std::string_view name) {
  return std::ranges::find(tools, name, &Tool::name) != tools.end();
}

// A part of a call, as the model writes it.
struct CallDelta {
  std::size_t index = 0;  // of the call, within the answer
  std::string name = {};  // not empty in the first part of a call,
  std::string id = {};    // which also gets the call's id
  std::string arguments = {};
};

// Collects the parts of calls. Arguments are JSON objects as text, whole when the parts are joined.
class CallDeltas final {
 public:
  void begin(std::string name) { parts_.push_back({.index = begun_++, .name = std::move(name)}); }
  // Adds to the call that was begun last.
  void add(std::string_view arguments) {
    if (parts_.empty() || parts_.back().index + 1 != begun_)
      parts_.push_back({.index = begun_ - 1});
    parts_.back().arguments += arguments;
  }
  void end() { ++ended_; }
  std::vector<CallDelta> take() { return std::exchange(parts_, {}); }

  std::size_t begun() const { return begun_; }
  bool all_ended() const { return begun_ == ended_; }

 private:
  std::vector<CallDelta> parts_;
  std::size_t begun_ = 0, ended_ = 0;
};

}  // namespace outrider
