// The checks of outrider-bench: each is a subcommand that measures something and holds it against
// a bar.
//
// A check is one file, bench/checks/<of what>/<name>.cc, with one function that adds it:
//
//   void add_wire_check(CheckList& checks) {
//     auto options = std::make_shared<WireOptions>();
//     CLI::App* command = checks.add("wire", "Sizes of messages on the wire",
//                                    [options] { return run_wire(*options); });
//     command->add_option("--nodes", options->nodes, "Nodes of the Grow");
//   }
//
// declared in bench/checks/checks.h and called by main.cc. The last line on stdout is one JSON
// object: {"check": "wire", "passed": true, <figures>}; a terminal gets its single figures in
// words. What is for people goes to stderr.
//
// Exit code 0 if it passed, 1 if its bar or the run failed, 2 for wrong usage, 3 if it is slower
// than what it was compared with (compare), 4 if nothing failed but the run is no evidence for the
// claim either: then the JSON says why in "nothing_shown".
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/stats/statistics.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "emulation/process/server_process.h"

namespace outrider {

inline constexpr int kExitRegression = 3;
inline constexpr int kExitNothingShown = 4;

struct CheckOutcome {
  bool passed = false;             // nothing that was judged failed
  bool regressed = false;          // slower than what it was compared with
  std::string nothing_shown = {};  // why it is no evidence all the same; empty: it is
  bool json_wanted = false;        // over a terminal too
  Json figures = Json::object();

  // Keeps the first reason.
  void show_nothing(const std::string& reason);

  // Holds the outcome to these bars, and adds them to the figures. It shows nothing if there are
  // none, or one of them was measured without an interval.
  void hold(std::span<const Bar> bars);

  // Adds how well an emulated pace was kept; fails the outcome if it was not
  // (emulation/process/server_process.h).
  void hold_pace(const std::string& whose, const PaceCounts& counts);

  // A failure counts before a lack of evidence.
  int exit_code() const;
};

// The figures of a check's JSON that are single ones, a line each, and where the rest is.
std::string figures_for_people(const Json& line);

class CheckList final {
 public:
  using Body = std::function<Result<CheckOutcome>()>;

  // app must outlive this.
  explicit CheckList(CLI::App& app) : app_(app) {}

  // A subcommand that runs `body`; its flags are added to the returned app. A kInvalidArgument of
  // body counts as wrong usage.
  CLI::App* add(const std::string& name, const std::string& description, Body body);

  // Runs the check that the command line named and prints its JSON line. Returns the failure of a
  // check that could not be carried out, else the exit code.
  Result<int> run_chosen() const;

 private:
  CLI::App& app_;
  std::vector<std::pair<CLI::App*, Body>> checks_;
};

}  // namespace outrider
