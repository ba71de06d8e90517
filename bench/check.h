// The checks of outrider-bench: each is a subcommand that measures something and compares it with a
// bar.
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
// It is declared in bench/checks/checks.h and called by main.cc. The last line on stdout is one
// JSON object: {"check": "wire", "passed": true, <figures>}; a terminal gets its single figures in
// words. Messages for people go to stderr.
//
// Exit codes: 0 the check passed; 1 a bar was missed, which counts the pessimistic bound, or the
// run failed; 2 wrong usage; 3 slower than what it was compared with (compare), or a
// printed figure that it disagrees with for no recorded reason (reproduce); 4 inconclusive:
// nothing failed, but the run is no evidence for the claim. Then the JSON's "inconclusive" says
// why.
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
inline constexpr int kExitInconclusive = 4;

struct CheckOutcome {
  bool passed = false;            // nothing that was judged failed
  bool regressed = false;         // worse than what it was compared with
  std::string inconclusive = {};  // why the run is no evidence; empty: it is evidence
  bool json_wanted = false;       // JSON even on a terminal
  Json figures = Json::object();

  // Keeps the first reason.
  void mark_inconclusive(const std::string& reason);

  // Judges the outcome by these bars, and adds them to the figures. Without bars, or with a bar
  // that was measured without an interval, it is inconclusive.
  void hold(std::span<const Bar> bars);

  // Adds how well an emulated pace was kept; the outcome fails if it was not kept
  // (emulation/process/server_process.h).
  void hold_pace(const std::string& whose, const PaceCounts& counts);

  // A failure takes precedence over a lack of evidence.
  int exit_code() const;
};

// The single figures of a check's JSON, one per line, and a hint how to get the others.
std::string figures_for_people(const Json& line);

class CheckList final {
 public:
  using Body = std::function<Result<CheckOutcome>()>;

  // app must outlive this object.
  explicit CheckList(CLI::App& app) : app_(app) {}

  // Adds a subcommand that runs `body`; the caller adds its flags to the returned app. A
  // kInvalidArgument of body counts as wrong usage.
  CLI::App* add(const std::string& name, const std::string& description, Body body);

  // Runs the check that the command line names and prints its JSON line. Returns the error of a
  // check that could not be carried out, else the exit code.
  Result<int> run_chosen() const;

 private:
  CLI::App& app_;
  std::vector<std::pair<CLI::App*, Body>> checks_;
};

}  // namespace outrider
