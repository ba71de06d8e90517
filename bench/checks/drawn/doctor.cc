// doctor: compares the forecasts of `outrider-edge doctor` with measurements, on settings that a
// seed draws. The doctor gets prompts and tries some of them. Then its way of decoding and plain
// decoding answer all of them, as programs of their own. Each setting draws its own prompts: a
// shared set of easier prompts would shift all settings alike. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/harness/grid.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/prompt_file.h"
#include "bench/harness/real_executor.h"
#include "bench/harness/summary.h"
#include "bench/scenario/drawn_settings.h"
#include "common/base/json.h"
#include "common/base/thread_pool.h"
#include "emulation/path/link_spec.h"
#include "emulation/process/process.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

constexpr double kMaxError = 0.10;     // of the forecast speed-up
constexpr std::size_t kMinOfEach = 3;  // settings with "use", and settings with "do not use"
constexpr Duration kAtMost = std::chrono::minutes(10);  // of one diagnosis

// The doctor's forecast.
struct Forecast {
  bool drafts = false;
  GridVariant way;
  double speed_up = 1;
  Interval interval;
};

Result<Forecast> read_forecast(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  const auto advice = json.is_object() ? json.find("advice") : json.end();
  if (!json.is_object() || advice == json.end()) {
    return data_loss("outrider-edge doctor printed no advice: " + line);
  }
  const std::string name = advice->value("tried_strategy", "");
  const std::optional<Strategy> strategy = parse_name<Strategy>(name);
  if (!strategy) return data_loss("the doctor's tried_strategy '" + name + "' is none");
  Forecast forecast;
  forecast.way = variant_of(*strategy);
  forecast.way.server_flags.clear();  // the doctor always ran against the same server
  forecast.way.server_queue.reset();
  forecast.way.gamma = advice->value("tried_gamma", 0);
  forecast.drafts = advice->value("draft", false);
  forecast.speed_up = advice->value("speed_up", 0.0);
  const auto interval = advice->value("interval", std::vector<double>());
  if (interval.size() == 2) forecast.interval = {interval[0], interval[1]};
  return forecast;
}

Result<Forecast> ask_doctor(const GridPlan& plan) {
  const GridSetting& setting = plan.settings.front();
  const std::vector<int> cores = usable_cores();
  ServerPool pool(plan, setting, cores.empty() ? std::nullopt : std::optional(cores.front()));
  OUTRIDER_ASSIGN_OR_RETURN(const LinkedServer* server, pool.find({}));
  server->link->begin_again(Duration{0}, plan.seed);
  ProcessOptions edge;
  OUTRIDER_ASSIGN_OR_RETURN(edge.program, sibling_program("outrider-lab-edge"));
  if (!cores.empty()) edge.core = cores.back();
  edge.network_namespace = server->link->edge_side().network_namespace;
  edge.arguments = {"doctor",
                    "--json",
                    "--log-level=warning",
                    "--threads=1",
                    "--server=" + server->address.to_string(),
                    "--model=" + plan.draft,
                    "--pace-step-ms=" + setting.step.to_string(),
                    "--max-tokens=" + std::to_string(plan.max_tokens),
                    "--seed=" + std::to_string(plan.seed),
                    fmt::format("--temp={:g}", setting.sampling.temperature)};
  if (!is_loopback(server->address.host)) edge.arguments.emplace_back("--insecure");
  for (const std::string& prompt : plan.prompts) edge.arguments.push_back("--prompt=" + prompt);
  OUTRIDER_ASSIGN_OR_RETURN(const FinishedProcess finished, run_process(edge, kAtMost));
  if (finished.exit_code != 0) {
    return unavailable("outrider-edge doctor at " + setting.name + " ended with code " +
                       std::to_string(finished.exit_code) + ": " + last_error_line(finished.err));
  }
  return read_forecast(last_line(finished.out));
}

struct Judged {
  std::string setting;
  Forecast forecast;
  Estimate measured;  // speed-up of the way that the doctor chose
  GridResult result;

  double error() const { return forecast.speed_up / measured.value - 1; }
  bool holds() const { return std::abs(error()) <= kMaxError; }
};

Result<Judged> judge_doctor(GridPlan plan) {
  OUTRIDER_ASSIGN_OR_RETURN(Forecast forecast, ask_doctor(plan));
  const std::string name = plan.settings.front().name;
  plan.variants = {variant_of(Strategy::kAr), forecast.way};
  RealExecutor programs(plan);
  GridListener listener;
  OUTRIDER_ASSIGN_OR_RETURN(GridResult result, run_grid(plan, programs, listener));
  const auto measured = speedup_at(result, name, forecast.way.name, plan.variants.front().name);
  if (!measured) {
    return unavailable(name + ": no speed-up could be measured, " +
                       std::to_string(result.failures) + " answers failed");
  }
  return Judged{name, std::move(forecast), *measured, std::move(result)};
}

void say(const Judged& one) {
  const Interval interval = one.measured.interval.value_or(Interval{});
  std::fprintf(stderr,
               "%s: %s %s gamma %d, forecast %.3f [%.3f, %.3f], measured %.3f [%.3f, %.3f], "
               "%+.1f %%%s\n",
               one.setting.c_str(), one.forecast.drafts ? "use" : "do not use",
               one.forecast.way.name.c_str(), one.forecast.way.gamma, one.forecast.speed_up,
               one.forecast.interval.low, one.forecast.interval.high, one.measured.value,
               interval.low, interval.high, 100 * one.error(), one.holds() ? "" : " MISSED");
}

Json to_json(const Judged& one) {
  return {{"setting", one.setting},
          {"use", one.forecast.drafts},
          {"strategy", one.forecast.way.name},
          {"spec_draft_n_max", one.forecast.way.gamma},
          {"forecast", one.forecast.speed_up},
          {"forecast_interval", {one.forecast.interval.low, one.forecast.interval.high}},
          {"measured", to_json(one.measured)},
          {"error", one.error()},
          {"holds", one.holds()}};
}

Result<CheckOutcome> run_doctor(const DrawnFlags& options) {
  GridPlan plan = options.plan;
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<PromptLine> lines, read_prompt_file(options.prompts, 0));
  OUTRIDER_RETURN_IF_ERROR(check_prompt_count(options.prompts, lines.size(), options.num_prompts));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<LinkProfile> networks, parse_links(options.networks));
  const DrawnFrom from{.networks = std::move(networks), .target_scales = {1, 2}};
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<GridSetting> settings,
                            draw_settings(from, options.settings, plan.seed));
  CheckOutcome outcome;
  outcome.passed = true;
  std::size_t used = 0;
  Json all = Json::array();
  for (std::size_t i = 0; i < settings.size(); ++i) {
    plan.settings = {settings[i]};
    const std::size_t count = options.num_prompts;
    SeededRandom(plan.seed + i).draw_first(lines, count);
    plan.prompts.clear();
    for (std::size_t k = 0; k < count; ++k) plan.prompts.push_back(lines[k].prompt);
    OUTRIDER_ASSIGN_OR_RETURN(const Judged one, judge_doctor(plan));
    say(one);
    all.push_back(to_json(one));
    outcome.passed = outcome.passed && one.holds();
    hold_run(one.result, outcome);
    if (one.forecast.drafts) ++used;
  }
  if (used < kMinOfEach || settings.size() - used < kMinOfEach) {
    outcome.mark_inconclusive(
        fmt::format("{} of {} settings were \"use\"; at least {} must be, and {} "
                    "\"do not\". Remedy: another --seed",
                    used, settings.size(), kMinOfEach, kMinOfEach));
  }
  outcome.figures["seed"] = plan.seed;
  outcome.figures["limit"] = kMaxError;
  outcome.figures["settings"] = std::move(all);
  return outcome;
}

}  // namespace

void add_doctor_check(CheckList& checks) {
  auto options = std::make_shared<DrawnFlags>(drawn_flags());
  options->networks = "ethernet,wifi,5g,lte,4g-fast,starlink";
  options->settings = 8;
  options->num_prompts = 26;
  CLI::App* command = checks.add("doctor", "Forecasts of outrider-edge doctor against measurements",
                                 [options] { return run_doctor(*options); });
  add_drawn_flags(*command, *options);
}

}  // namespace outrider
