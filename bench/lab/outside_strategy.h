// A strategy that another program decides, so that one can be tried out in any language beside ours
// and its rivals (outrider.lab does it in Python). It is asked by lines of JSON: when an answer
// begins, and after each verdict. Each line it writes is its plan for what follows:
//
//   {"event": "answer", "length": 4}
//   {"event": "verdict", "tokens": [17, 4], "drafted": 4, "accepted": 1, "now_ms": 181.5,
//    "draft_step_ms": 12.5, "pass_ms": 40.1, "round_trip_ms": 50.0}
//
//   {"length": 4, "least_chance": 0.2, "ahead": true, "fan_out": 2, "send": false}
//
// A field that it leaves out stays as it was. Its thinking takes no virtual time. A program that
// ends, is silent, or writes something else stops the run with a sentence that says so.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/posix.h"
#include "common/base/status.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

struct OutsidePlan {
  std::size_t length = 4;   // tokens drafted in a round; 0: the target decodes alone
  double least_chance = 0;  // a round ends before the token with which its chance falls below this
  bool ahead = false;       // drafts while a verdict is awaited, instead of resting
  int fan_out = 1;          // next tokens considered at each position of what is drafted ahead
  bool send = false;        // what was drafted ahead leaves before the verdict, not after it
};

// The plan that a line changes `before` to. INVALID_ARGUMENT, with field, value and remedy.
Result<OutsidePlan> read_outside_plan(std::string_view line, const OutsidePlan& before);

// The program. It starts when it is asked first, and ends with this object.
class OutsideProgram final {
 public:
  static constexpr Duration kPatience = std::chrono::minutes(1);

  // command: of a shell. name: for reports and errors. patience: for one plan.
  OutsideProgram(std::string name, std::string command, Duration patience = kPatience);
  ~OutsideProgram();
  OutsideProgram(const OutsideProgram&) = delete;
  OutsideProgram& operator=(const OutsideProgram&) = delete;

  const std::string& command() const { return command_; }
  // Valid as long as this object.
  const GuestStrategy& guest() const { return guest_; }
  // Why it cannot decide any more; OK while it can.
  const Status& status() const { return status_; }

  // Its plan after an event. Where it cannot decide, `before`; status() then says why.
  OutsidePlan ask(const Json& event, const OutsidePlan& before);

 private:
  Status start();
  void write_line(std::string_view line);
  Result<std::string> read_line();

  const std::string name_;
  const std::string command_;
  const Duration patience_;
  const GuestStrategy guest_;
  Status status_;
  pid_t pid_ = 0;  // 0: it does not run
  UniqueFd to_, from_;
  std::string heard_;  // after the last whole line
};

}  // namespace outrider
