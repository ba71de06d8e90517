// The grid of `outrider-bench run`, from its flags or a scenario file: networks x devices x
// temperatures x strategies x draft lengths x prompts.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "bench/harness/grid_flags.h"
#include "bench/report/cell_report.h"
#include "bench/scenario/energy_flags.h"
#include "common/base/status.h"

namespace outrider {

// Lists of numbers as written on a command line: "0,0.7", "2-8", "0-100+25".
//
// A range includes both ends; its step follows a +, or is 1 (as in llama-bench).
struct ValueBounds {
  double least = 0;
  double most = 0;
};

// In the order written. `flag` names the list in errors. INVALID_ARGUMENT for text that is no
// number, numbers outside the bounds or repeated, descending ranges, and more than 1,000 values.
Result<std::vector<double>> parse_values(const std::string& text, const std::string& flag,
                                         const ValueBounds& bounds);

// The same for whole numbers.
Result<std::vector<int>> parse_whole_values(const std::string& text, const std::string& flag,
                                            const ValueBounds& bounds);

// The words between commas, trimmed; an empty word counts too.
std::vector<std::string> split_list(const std::string& text);

struct RunFlags {
  GridFlags grid;
  std::string scenario;               // a TOML file; empty: none
  std::vector<std::string> networks;  // empty: the paces' own delays
  std::vector<std::string> strategies = {"ar", "sd", "fsd", "mirror"};  // of contenders()
  std::string synthetic;  // a file of synthetic acceptance; empty: the models' own
  std::string temperatures = "0";
  std::string gammas;     // empty: each strategy its own
  std::string delays_ms;  // one way; empty: the pace's own
  RunClock clock = RunClock::kReal;
  std::size_t least_answers = 0;  // with fewer, a bar on a network is inconclusive
  LinkKind link_kind = LinkKind::kBest;
  ServiceLimits limits;
  bool slo_unverified = false;
  std::string out;         // a folder; empty: nothing is kept
  std::string html;        // a file; empty: none
  std::string price_file;  // a TOML file; empty: no costs
  EnergyFlags energy;
  bool fresh = false;
  bool json = false;
  std::string corrupted;  // a test hook: a variant; empty: none
};

CLI::App& add_run_flags(CLI::App& command, RunFlags& flags);

// The plan, and for each of its settings the pace with which figures are compared. INVALID_ARGUMENT
// for contradictory flags, with the flag and a remedy.
Result<GridExperiment> make_run(const RunFlags& flags);

}  // namespace outrider
