// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/grid_flags.h"

#include "bench/prompts/prompt_file.h"
#include "common/cli/choice.h"

namespace outrider {

void add_grid_flags(CLI::App& command, GridFlags& flags) {
  command.add_option("--target", flags.target, "Directory of the target");
  command.add_option("--draft", flags.draft, "Directory of the draft");
  command.add_option("--dtype", flags.dtype, "How the target computes: auto, f32, bf16, int8");
  command.add_option("--exits", flags.exits,
                     "The target's early exits, as outrider-server takes them: auto, none, all, or "
                     "layers like 3,6 [" +
                         flags.exits + "]");
  command.add_option("--prompts", flags.prompts, "JSONL file with \"prompt\"")->required();
  command.add_option("--num-prompts", flags.num_prompts, "Only the first ones; 0: all");
  command.add_option("--max-tokens", flags.max_tokens, "Most tokens of each answer")
      ->check(CLI::Range(2, 1'000'000));
  command.add_option("--spec-draft-n-max", flags.gamma, "Tokens drafted in a round (γ)")
      ->check(CLI::Range(1, 64));
  command.add_option("--pace", flags.paces, "Emulated devices and links, or unpaced")
      ->delimiter(',');
  command
      .add_option("--delay-ms", flags.delays_ms,
                  "Delay of the emulated link one way, several for a sweep [the pace's]")
      ->check(CLI::Range(0.0, 10000.0))
      ->delimiter(',');
  add_choice(command, "--pace-exits", flags.pass_times,
             "printed: the paper's T_q; measured: its cloud decoding's own time by rows, times "
             "--exit-cost for strategies with exits");
  command
      .add_option("--exit-cost", flags.exit_cost,
                  "measured: how much longer a pass takes with exits, the pass_ratio of "
                  "outrider-bench exits")
      ->check(CLI::Range(1.0, 10.0));
  command.add_option("--temp", flags.temperature, "Temperature")->check(CLI::Range(0.0, 100.0));
  command.add_option("--seed", flags.seed, "Seed of the noise");
  command
      .add_option("--time-scale", flags.time_scale,
                  "Run emulated times so many times faster; what is real then weighs more")
      ->check(CLI::Range(1.0, 100.0));
}

namespace {

// Exits are not free, and printed pass times hold their cost already.
Status check_exit_cost(const GridFlags& flags) {
  const bool printed = flags.pass_times == PassTimes::kPrinted;
  if (printed && flags.exit_cost.value_or(1) != 1) {
    return invalid_argument(
        "--exit-cost needs --pace-exits measured: printed pass times hold "
        "what exits cost in the paper");
  }
  if (!printed && !flags.exit_cost) {
    return invalid_argument(
        "--pace-exits measured needs --exit-cost, how much longer a pass takes with exits. Remedy: "
        "measure it with 'outrider-bench exits --model DIR --rows 5' and give its pass_ratio");
  }
  return {};
}

}  // namespace

Result<GridExperiment> make_experiment(const GridFlags& flags) {
  OUTRIDER_RETURN_IF_ERROR(check_exit_cost(flags));
  GridExperiment experiment;
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<PaperPace> paces, find_paces(flags.paces));
  for (const PaperPace& pace : paces) {
    if (flags.delays_ms.empty()) experiment.paces.push_back(pace);
    for (const double delay : flags.delays_ms) {
      experiment.paces.push_back(at_distance(pace, delay));
    }
  }
  experiment.times = flags.pass_times;
  GridPlan& plan = experiment.plan;
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<PromptLine> lines,
                            read_prompt_file(flags.prompts, flags.num_prompts));
  for (PromptLine& line : lines) plan.prompts.push_back(std::move(line.prompt));
  plan.target = flags.target;
  plan.draft = flags.draft;
  plan.dtype = flags.dtype;
  plan.exits = flags.exits;
  plan.max_tokens = flags.max_tokens;
  plan.gamma = flags.gamma;
  plan.sampling.temperature = static_cast<float>(flags.temperature);
  plan.seed = flags.seed;
  plan.time_scale = flags.time_scale;
  for (const PaperPace& pace : experiment.paces) {
    plan.settings.push_back(
        {.name = pace.name,
         .pass = pass_curve(pace, experiment.times, 1),
         .pass_with_exits = pass_curve(pace, experiment.times, flags.exit_cost.value_or(1)),
         .step = step_curve(pace),
         .one_way_ms = pace.one_way_ms});
  }
  return experiment;
}

Json experiment_json(const GridFlags& flags) {
  return {{"emulated", true},
          {"pace_exits", name_of(flags.pass_times)},
          {"exits", flags.exits},
          {"exit_cost", flags.exit_cost ? Json(*flags.exit_cost) : Json()},
          {"time_scale", flags.time_scale},
          {"spec_draft_n_max", flags.gamma},
          {"max_tokens", flags.max_tokens},
          {"temperature", flags.temperature},
          {"seed", flags.seed},
          {"prompts", flags.prompts}};
}

}  // namespace outrider
