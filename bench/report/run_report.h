// A run as a report: JSON for programs (outrider-bench compare reads it), CSV for tables, Markdown
// for people. bench/benchmarks.md describes the fields.
//
// Thread rule: pure functions, apart from about_machine().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report/cell_report.h"
#include "bench/stats/statistics.h"
#include "common/base/json.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/serving/prices/prices.h"

namespace outrider {

inline constexpr const char* kReportSchema = "outrider-bench-report/2";

// The parts of a report about the run as a whole.
struct RunDescription {
  std::string made_by;           // version and commit of the program
  std::string command;           // the flags in effect, one text
  Json models = Json::object();  // target and draft, with fingerprints
  Json setup = Json::object();   // how the programs computed
  Json machine = Json::object();
  Json measured_links = Json::object();  // by network: the requested profile and TCP's results
  RunClock clock = RunClock::kReal;
  std::uint64_t seed = 0;
  std::string prompts;       // the file
  std::string prompts_hash;  // sha256 of the prompts, in hex
  std::size_t num_prompts = 0;
  int repetitions = 1;
  int max_tokens = 0;
  ServiceLimits limits;
  std::optional<double> exit_cost = {};  // how many times as long a pass with exits takes
  bool exit_cost_measured = false;       // on this machine, for this run
};

// One sentence about run.exit_cost; empty if no pass has one.
std::string exit_cost_line(const RunDescription& run);

// How far a run is that goes on.
struct AnswersSoFar {
  std::size_t done = 0;
  std::size_t all = 0;
};

struct RunReport {
  RunDescription run;
  std::optional<AnswersSoFar> so_far = {};  // nothing: the run is over
  std::vector<CellReport> cells = {};
  std::vector<Bar> bars = {};
  std::optional<Prices> prices = {};            // if given, cells have costs
  std::optional<EnergyModel> energy = {};       // if given, cells have an energy
  bool valid = true;                            // all texts are plain decoding's
  std::string inconclusive = {};                // why the run is no evidence; empty: it is evidence
  std::vector<FinishedAnswer> examples = {};    // of the first prompt in each cell, for a time line
  std::vector<std::string> setting_names = {};  // [job.setting]
  std::vector<std::string> variant_names = {};  // [job.variant]
};

// CPU, cores and kernel of this machine.
Json about_machine();

// The result of the run in one sentence: the fastest variants, or that it is inconclusive.
std::string result_line(const RunReport& report);

Json report_json(const RunReport& report);
std::string report_csv(const RunReport& report);
std::string report_markdown(const RunReport& report);

// How a report of JSON is written: its schema stands first, by which an earlier one is known.
std::string with_schema_first(const Json& report, std::string_view schema);

// The files of a run.
inline constexpr OutputKind kReportJson{
    .name = "a report.json of outrider-bench", .is_earlier = [](std::string_view content) {
      return content.starts_with("{\n \"schema\": \"outrider-bench-");
    }};
inline constexpr OutputKind kReportCsv{
    .name = "a report.csv of outrider-bench", .is_earlier = [](std::string_view content) {
      return content.starts_with("setting,network,pace,temperature,");
    }};
inline constexpr OutputKind kReportMarkdown{
    .name = "a report.md of outrider-bench",
    .is_earlier = [](std::string_view content) { return content.starts_with("# Outrider run\n"); }};
inline constexpr OutputKind kReportPage{
    .name = "a page of outrider-bench", .is_earlier = [](std::string_view content) {
      return content.starts_with("<!doctype html>") &&
             content.find("<title>Outrider: ") != std::string_view::npos;
    }};

// A run's report.json, read back.

// INVALID_ARGUMENT if it is no report of this version with an array of cells. name: the file's.
Status check_report(const Json& report, const std::string& name);

// NOT_FOUND, or INVALID_ARGUMENT as above.
Result<Json> read_report(const std::string& path);

}  // namespace outrider
