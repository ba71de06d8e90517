// measure-device: how long this device takes for a draft's steps and a target's passes, by rows,
// and what exits add, as a file for --pace-from.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "bench/checks/checks.h"
#include "bench/checks/speed/exits.h"
#include "bench/harness/statistics.h"
#include "bench/paces/device_pace.h"
#include "bench/peers/pass_runner.h"
#include "bench/report/run_report.h"
#include "common/exits/adapters.h"
#include "common/model/loader/loader.h"

namespace outrider {
namespace {

struct DeviceOptions {
  std::string draft;
  std::string target;
  std::string dtype = "auto";
  std::string name;
  std::string out;
  int threads = 1;
  int context = 128;
  int rounds = 9;
  std::vector<int> rows = {1, 2, 3, 4, 5, 8, 12, 16, 32, 64};
};

// Medians; of more rows never less than of fewer, as rows are sometimes free but never a gift.
Result<PaceCurve> measure_rows(Model& model, const DeviceOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(
      PassRunner passes, PassRunner::make(model, options.context + std::ranges::max(options.rows)));
  std::vector<std::vector<double>> ms(options.rows.size());
  for (int round = 0; round <= options.rounds; ++round) {
    for (std::size_t i = 0; i < options.rows.size(); ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(const double seconds,
                                passes.time_pass(options.rows[i], options.context));
      if (round > 0) ms[i].push_back(seconds * 1e3);  // the first one warms up
    }
  }
  std::vector<PaceCurve::Point> points;
  double longest = 0;
  for (std::size_t i = 0; i < options.rows.size(); ++i) {
    longest = std::max(longest, quantile(ms[i], 0.5));
    points.push_back({options.rows[i], longest});
  }
  return PaceCurve::create(std::move(points));
}

Result<MeasuredTimes> measure_model(const std::string& path, const DeviceOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                            load_model({.directory = path,
                                        .dtype = options.dtype,
                                        .threads = options.threads,
                                        .max_context = {},
                                        .progress = {}}));
  MeasuredTimes times;
  times.model = model->info().name + ", " + model->info().dtype;
  OUTRIDER_ASSIGN_OR_RETURN(times.ms, measure_rows(*model, options));
  return times;
}

// 1 for a target without exits of its own.
Result<double> measure_exit_cost(const DeviceOptions& options) {
  if (!load_adapters(folder_of_model(options.target)).ok()) return 1.0;
  ExitsOptions exits;
  exits.model = options.target;
  exits.dtype = options.dtype;
  exits.threads = options.threads;
  OUTRIDER_ASSIGN_OR_RETURN(const CheckOutcome outcome, measure_exits(exits));
  return std::max(1.0, outcome.figures.value("pass_ratio", 1.0));
}

Status check_device_options(DeviceOptions& options) {
  if (options.draft.empty() && options.target.empty()) {
    return invalid_argument("nothing to measure. Remedy: --draft MODEL, --target MODEL, or both");
  }
  std::ranges::sort(options.rows);
  const auto twice = std::ranges::unique(options.rows);
  options.rows.erase(twice.begin(), twice.end());
  if (options.rows.empty() || options.rows.front() < 1 || options.rows.back() > 256) {
    return invalid_argument("--rows must be from 1 to 256");
  }
  if (options.rows.front() > 1) options.rows.insert(options.rows.begin(), 1);
  return {};
}

Json times_json(const std::optional<MeasuredTimes>& times) {
  if (!times) return {};
  Json passes = Json::array();
  for (const PaceCurve::Point& point : times->ms.points()) {
    passes.push_back({{"rows", point.rows}, {"ms", point.ms}});
  }
  return {{"model", times->model}, {"passes", std::move(passes)}, {"exit_cost", times->exit_cost}};
}

Result<CheckOutcome> measure_device(DeviceOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(check_device_options(options));
  const Json machine = about_machine();
  DevicePace pace{.device = options.name.empty() ? machine.value("cpu", "") : options.name};
  if (!options.draft.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(pace.draft, measure_model(options.draft, options));
  }
  if (!options.target.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(pace.target, measure_model(options.target, options));
    OUTRIDER_ASSIGN_OR_RETURN(pace.target->exit_cost, measure_exit_cost(options));
  }
  const std::string text = to_toml(pace);
  std::fputs(text.c_str(), stdout);
  if (!options.out.empty()) OUTRIDER_RETURN_IF_ERROR(write_file(options.out, text));
  CheckOutcome outcome{.passed = true};
  outcome.figures = {{"device", pace.device},           {"machine", machine},
                     {"threads", options.threads},      {"context", options.context},
                     {"draft", times_json(pace.draft)}, {"target", times_json(pace.target)}};
  return outcome;
}

}  // namespace

void add_measure_device_check(CheckList& checks) {
  auto options = std::make_shared<DeviceOptions>();
  CLI::App* command =
      checks.add("measure-device", "This device's pass times by rows, for --pace-from elsewhere",
                 [options] { return measure_device(*options); });
  command->add_option("--draft", options->draft, "Draft: a directory or a GGUF file");
  command->add_option("--target", options->target, "Target: a directory or a GGUF file");
  command->add_option("--dtype", options->dtype, "How models compute: auto, f32, bf16, int8, int4");
  command->add_option("--threads", options->threads, "Compute threads")->check(CLI::Range(1, 1024));
  command->add_option("--context", options->context, "Tokens before the rows")
      ->check(CLI::Range(1, 100'000));
  command->add_option("--rounds", options->rounds, "Passes of each number of rows")
      ->check(CLI::Range(1, 1000));
  command->add_option("--rows", options->rows, "Numbers of rows")->delimiter(',');
  command->add_option("--name", options->name, "What to call the device [its processor]");
  command->add_option("--out", options->out, "Write the file for --pace-from here");
}

}  // namespace outrider
