// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/grid_flags.h"

#include <algorithm>
#include <utility>

#include "bench/harness/prompt_file.h"
#include "common/engine/model/loader/loader.h"
#include "common/serving/cli/choice.h"

namespace outrider {

void add_prompts_flag(CLI::App& command, std::string& prompts) {
  command.add_option(
      "--prompts", prompts,
      "JSONL file with \"prompt\", or a folder of such files, which give one prompt each in turn");
}

void add_model_flags(CLI::App& command, GridFlags& flags) {
  command.add_option("--target", flags.plan.target, "Target: a directory or a GGUF file");
  command.add_option("--draft", flags.plan.draft, "Draft: a directory or a GGUF file");
  command.add_option("--dtype", flags.plan.dtype,
                     "How the target computes: auto, f32, bf16, int8, int4");
  command.add_option("--exits", flags.plan.exits,
                     "The target's early exits, as for outrider-server: auto, none, all, or "
                     "layers such as 3,6 [" +
                         flags.plan.exits + "]");
  add_prompts_flag(command, flags.prompts);
  command.add_option("--num-prompts", flags.num_prompts, "Only the first N prompts; 0: all");
  command
      .add_option("--device", flags.plan.device,
                  "Where outrider-server computes: cpu, cuda, host-cuda")
      ->check(CLI::IsMember(kDevices));
  command
      .add_option("--max-tokens", flags.plan.max_tokens, "Largest number of tokens of an answer")
      ->check(CLI::Range(2, 1'000'000));
  command.add_option("--seed", flags.plan.seed, "Seed of the noise");
}

void add_pace_flags(CLI::App& command, GridFlags& flags) {
  command.add_option("--pace", flags.paces, "Emulated devices and links, or unpaced")
      ->delimiter(',');
  add_choice(command, "--pace-exits", flags.pass_times,
             "Pass times. measured: those that the paper's cloud decoding implies, by rows, times "
             "--exit-cost for a pass with exits; printed: the paper's T_q; or both");
  add_choice(
      command, "--pace-link", flags.pace_links,
      "The paper's T_c. whole: all of it is the link; distance: without the part that the same "
      "target has on InfiniBand (software and bytes); or both");
  command
      .add_option("--exit-cost", flags.exit_cost,
                  "With measured pass times: how many times as long a pass takes with exits, the "
                  "pass_ratio of outrider-bench exits [measured on the target before the run]")
      ->check(CLI::Range(1.0, 10.0));
  command
      .add_option(
          "--cloud-step-ms", flags.cloud_step_ms,
          "With sd-cloud: a step of the draft beside the target [a sixteenth of the target's "
          "pass of one row, our choice]")
      ->check(CLI::Range(0.001, 1e6));
}

void add_grid_flags(CLI::App& command, GridFlags& flags) {
  add_model_flags(command, flags);
  add_pace_flags(command, flags);
  command.add_option("--spec-draft-n-max", flags.plan.gamma, "Tokens drafted in a round (γ)")
      ->check(CLI::Range(1, 64));
  command
      .add_option("--delay-ms", flags.delays_ms,
                  "One-way delay of the emulated link, several for a sweep [the pace's]")
      ->check(CLI::Range(0.0, 10000.0))
      ->delimiter(',');
  command.add_option("--temp", flags.temperature, "Temperature")->check(CLI::Range(0.0, 100.0));
}

namespace {

bool takes(const GridFlags& flags, PassTimes times) {
  return std::ranges::find(flags.pass_times, times) != flags.pass_times.end();
}

// Exits have a cost, which printed pass times already include.
Result<std::optional<double>> exit_cost_of(const GridFlags& flags,
                                           const std::vector<GridVariant>& variants) {
  if (!takes(flags, PassTimes::kMeasured) && flags.exit_cost.value_or(1) != 1) {
    return invalid_argument(
        "--exit-cost needs --pace-exits measured: printed pass times include "
        "the cost of exits in the paper");
  }
  const bool uses_exits = std::ranges::any_of(variants, &GridVariant::uses_exits);
  const bool emulates =
      std::ranges::any_of(flags.paces, [](const std::string& pace) { return pace != "unpaced"; });
  if (flags.exit_cost || !takes(flags, PassTimes::kMeasured) || !uses_exits || !emulates) {
    return flags.exit_cost;
  }
  if (!flags.measure_exit_cost) {
    return invalid_argument(
        "--pace-exits measured needs --exit-cost, how many times as long a pass takes with exits. "
        "Remedy: give the pass_ratio of 'outrider-bench exits --model DIR --rows 5'");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const double measured, flags.measure_exit_cost());
  return std::optional(measured);
}

// Pace by pace, measured pass times before printed ones.
Result<std::vector<PaperPace>> wanted_paces(const GridFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> named, find_paces(flags.paces));
  std::vector<PaperPace> paces;
  const auto add = [&](const PaperPace& pace) {
    for (const PassTimes times : {PassTimes::kMeasured, PassTimes::kPrinted}) {
      if (!takes(flags, times)) continue;
      const PaperPace timed = with_times(pace, times);
      // Table 9 has one kind of pass times only.
      if (paces.empty() || paces.back().name != timed.name) paces.push_back(timed);
    }
  };
  const auto add_links = [&](const PaperPace& pace) {
    for (const PaceLink link : flags.pace_links) {
      const PaperPace read = with_link(pace, link);
      if (paces.empty() || paces.back().name != read.name) add(read);
    }
  };
  for (const PaperPace& pace : named) {
    if (flags.delays_ms.empty()) add_links(pace);
    for (const double delay : flags.delays_ms) add(at_distance(pace, delay));
  }
  return paces;
}

PaceCurve cloud_step(const PaperPace& pace, const GridFlags& flags) {
  const PaceCurve pass = pass_curve(pace);
  if (pass.empty()) return {};
  const double ms = flags.cloud_step_ms.value_or(pass.ms(1) * kCloudDraftShare);
  return *PaceCurve::create({{1, ms}});
}

GridSetting setting_of(const PaperPace& pace, const GridFlags& flags,
                       std::optional<double> exit_cost) {
  SamplingParams sampling;
  sampling.temperature = static_cast<float>(flags.temperature);
  return {.name = pace.name,
          .pace = pace.name,
          .pass = pass_curve(pace),
          .exit_cost = pace.times == PassTimes::kMeasured ? exit_cost.value_or(1) : 1,
          .step = step_curve(pace),
          .cloud_step = cloud_step(pace, flags),
          .link = delay_profile(from_ms(pace.one_way_ms)),
          .sampling = sampling,
          .target_layers = pace.target_layers};
}

}  // namespace

Result<GridExperiment> make_experiment(const GridFlags& flags, std::vector<GridVariant> variants) {
  GridExperiment experiment{.plan = flags.plan, .paces = {}, .exit_cost = {}};
  OUTRIDER_ASSIGN_OR_RETURN(experiment.paces, wanted_paces(flags));
  OUTRIDER_ASSIGN_OR_RETURN(experiment.exit_cost, exit_cost_of(flags, variants));
  GridPlan& plan = experiment.plan;
  if (!flags.prompts.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<PromptLine> lines,
                              read_prompt_file(flags.prompts, flags.num_prompts));
    for (PromptLine& line : lines) plan.prompts.push_back(std::move(line.prompt));
  }
  plan.variants = std::move(variants);
  for (const PaperPace& pace : experiment.paces) {
    plan.settings.push_back(setting_of(pace, flags, experiment.exit_cost));
  }
  return experiment;
}

void hold_run(const GridResult& result, CheckOutcome& outcome) {
  outcome.passed = outcome.passed && result.mismatches == 0;
  outcome.figures["compared"] = result.compared;
  outcome.figures["mismatches"] = result.mismatches;
  for (const GridOverruns& one : result.overruns) {
    outcome.hold_pace("target at " + one.setting, one.target);
    outcome.hold_pace("draft at " + one.setting, one.draft);
  }
}

Json experiment_json(const GridFlags& flags, const GridExperiment& experiment) {
  Json times = Json::array();
  for (const PassTimes one : flags.pass_times) times.push_back(name_of(one));
  Json links = Json::array();
  for (const PaceLink one : flags.pace_links) links.push_back(name_of(one));
  return {{"emulated", true},
          {"pace_link", std::move(links)},
          {"pace_exits", std::move(times)},
          {"exits", flags.plan.exits},
          {"exit_cost", experiment.exit_cost ? Json(*experiment.exit_cost) : Json()},
          {"exit_cost_measured", experiment.exit_cost.has_value() && !flags.exit_cost},
          {"spec_draft_n_max", flags.plan.gamma},
          {"max_tokens", flags.plan.max_tokens},
          {"temperature", flags.temperature},
          {"seed", flags.plan.seed},
          {"prompts", flags.prompts},
          {"num_prompts", flags.num_prompts}};
}

}  // namespace outrider
