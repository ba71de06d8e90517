// clocks: compares virtual time with real time on settings that a seed draws. A setting is a
// network, two devices, a temperature and a strategy. The mean time per token must be the same by
// both clocks. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/harness/grid.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/prompt_file.h"
#include "bench/harness/real_executor.h"
#include "bench/harness/virtual_executor.h"
#include "bench/scenario/drawn_settings.h"
#include "emulation/path/link_spec.h"

namespace outrider {
namespace {

constexpr double kMaxDifference = 0.05;  // of the mean time per token
// The number of prompts is multiplied by this if fewer are inconclusive: losses and black-outs are
// rare and expensive.
constexpr std::size_t kMorePrompts = 4;

constexpr Strategy kStrategies[] = {Strategy::kAr, Strategy::kSd, Strategy::kFsd,
                                    Strategy::kMirror};

struct Compared {
  std::string setting;
  std::string strategy;
  std::string link_kind;  // of the run in real time
  Estimate difference;    // time per token, virtual over real, minus 1
  double real_ms = 0;
  double virtual_ms = 0;
  GridResult real;

  // Whether the interval contains the limit, so that the setting is undecided.
  bool is_open() const {
    if (!difference.interval) return false;
    const auto holds_limit = [&](double limit) {
      return difference.interval->low < limit && limit < difference.interval->high;
    };
    return holds_limit(-kMaxDifference) || holds_limit(kMaxDifference);
  }
  bool agrees() const { return std::abs(difference.value) <= kMaxDifference; }
};

Result<GridResult> run_by(const GridPlan& plan, AnswerExecutor& executor) {
  GridListener listener;
  OUTRIDER_ASSIGN_OR_RETURN(GridResult result, run_grid(plan, executor, listener));
  if (result.failures == 0) return result;
  for (const FinishedAnswer& answer : result.finished) {
    if (answer.failed()) return unavailable(plan.settings.front().name + ": " + answer.error);
  }
  return internal_error("a run failed, but none of its answers");
}

Result<Compared> compare(const GridPlan& plan) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<VirtualExecutor> simulation,
                            VirtualExecutor::create(plan));
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult simulated, run_by(plan, *simulation));
  RealExecutor programs(plan);
  OUTRIDER_ASSIGN_OR_RETURN(GridResult real, run_by(plan, programs));
  const auto simulated_ms = tpot_of(simulated.cells.front().answers);
  const auto real_ms = tpot_of(real.cells.front().answers);
  const auto ratio = speedup(simulated.cells.front().answers, real.cells.front().answers);
  if (!ratio || !simulated_ms || !real_ms || simulated.mismatches > 0) {
    return data_loss(plan.settings.front().name +
                     ": no time per token, or another text in virtual time. Remedy: prompts with "
                     "longer answers");
  }
  Estimate difference{ratio->value - 1, {}};
  if (ratio->interval) {
    difference.interval = Interval{ratio->interval->low - 1, ratio->interval->high - 1};
  }
  return Compared{.setting = plan.settings.front().name,
                  .strategy = plan.variants.front().name,
                  .link_kind = real.link_kinds.front(),
                  .difference = difference,
                  .real_ms = real_ms->value,
                  .virtual_ms = simulated_ms->value,
                  .real = std::move(real)};
}

void say(const Compared& one) {
  const Interval interval = one.difference.interval.value_or(Interval{});
  std::fprintf(stderr,
               "%-6s %s: real %.2f ms per token (%s), virtual %.2f, %+.1f %% [%+.1f, %+.1f]%s\n",
               one.strategy.c_str(), one.setting.c_str(), one.real_ms, one.link_kind.c_str(),
               one.virtual_ms, 100 * one.difference.value, 100 * interval.low, 100 * interval.high,
               one.is_open()  ? " inconclusive: too few answers"
               : one.agrees() ? ""
                              : " NOT THE SAME");
}

Json to_json(const Compared& one) {
  return {{"setting", one.setting},
          {"strategy", one.strategy},
          {"link", one.link_kind},
          {"real_tpot_ms", one.real_ms},
          {"virtual_tpot_ms", one.virtual_ms},
          {"difference", to_json(one.difference)},
          {"agrees", one.agrees()}};
}

void set_prompts(GridPlan& plan, const std::vector<PromptLine>& lines, std::size_t most) {
  plan.prompts.clear();
  for (std::size_t i = 0; i < std::min(most, lines.size()); ++i) {
    plan.prompts.push_back(lines[i].prompt);
  }
}

Result<CheckOutcome> run_clocks(const DrawnFlags& options) {
  GridPlan plan = options.plan;
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<PromptLine> lines, read_prompt_file(options.prompts, 0));
  OUTRIDER_RETURN_IF_ERROR(check_prompt_count(options.prompts, lines.size(), options.num_prompts));
  lines.resize(std::min(lines.size(), kMorePrompts * options.num_prompts));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<LinkProfile> networks, parse_links(options.networks));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<GridSetting> settings,
      draw_settings({.networks = std::move(networks)}, options.settings, plan.seed));
  CheckOutcome outcome;
  outcome.passed = true;
  Json all = Json::array();
  for (std::size_t i = 0; i < settings.size(); ++i) {
    plan.settings = {settings[i]};
    plan.variants = {variant_of(kStrategies[i % std::size(kStrategies)])};
    set_prompts(plan, lines, options.num_prompts);
    OUTRIDER_ASSIGN_OR_RETURN(Compared one, compare(plan));
    say(one);
    if (one.is_open() && lines.size() > options.num_prompts) {
      set_prompts(plan, lines, lines.size());
      OUTRIDER_ASSIGN_OR_RETURN(one, compare(plan));
      say(one);
    }
    all.push_back(to_json(one));
    outcome.passed = outcome.passed && one.agrees();
    hold_run(one.real, outcome);
  }
  outcome.figures["seed"] = plan.seed;
  outcome.figures["limit"] = kMaxDifference;
  outcome.figures["settings"] = std::move(all);
  return outcome;
}

}  // namespace

void add_clocks_check(CheckList& checks) {
  auto options = std::make_shared<DrawnFlags>(drawn_flags());
  // All networks except `offline` and those whose round trips would make an answer take minutes.
  options->networks = "ethernet,wifi,wifi-roam,5g,lte,4g-fast,4g-slow,3g,starlink,flaky";
  options->settings = 12;
  options->num_prompts = 4;
  CLI::App* command =
      checks.add("clocks", "Virtual time against real time on settings that a seed draws",
                 [options] { return run_clocks(*options); });
  add_drawn_flags(*command, *options);
}

}  // namespace outrider
