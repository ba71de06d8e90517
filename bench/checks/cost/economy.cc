// What mirrored sends spend: bytes of the uplink, passes and rows of the target.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "bench/checks/checks.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/summary.h"
#include "common/cli/choice.h"

namespace outrider {
namespace {

constexpr double kMaxUplinkBytes = 200;  // per committed token, framing included
constexpr double kMinSpeculated = 0.5;   // of the passes, verified drafted tokens

// All cells of a variant together.
AnswerFigures sum_of_variant(const GridResult& result, const std::string& variant) {
  AnswerFigures sum;
  for (const GridCell& cell : result.cells) {
    if (cell.variant == variant) sum += sum_of(cell.answers);
  }
  return sum;
}

struct BytesOptions {
  GridFlags grid;
  Strategy strategy = Strategy::kMirror;
};

// Says so if speculation was off for most passes of a cell: then little was sent at all.
void require_speculation(const GridCell& cell, CheckOutcome& outcome) {
  const AnswerFigures sum = sum_of(cell.answers);
  const double share = sum.passes > 0 ? sum.rounds / sum.passes : 0;
  if (share >= kMinSpeculated) return;
  outcome.show_nothing(fmt::format(
      "speculation was off: at {} only {:.0f} % of the passes verified drafted tokens, {:.0f} % "
      "are needed",
      cell.setting, 100 * share, 100 * kMinSpeculated));
}

Result<CheckOutcome> run_bytes(const BytesOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                            make_experiment(options.grid, {variant_of(options.strategy)}));
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  CheckOutcome outcome;
  outcome.passed = true;
  std::vector<Bar> bars;
  for (const GridCell& cell : result.cells) {
    const auto framed = estimate(cell.answers, &AnswerFigures::wire_up_per_token);
    if (!framed) return failed_precondition("the answers are empty");
    const AnswerFigures sum = sum_of(cell.answers);
    std::printf("%-22s %6.1f B payload, %6.1f B with framing up per token\n", cell.setting.c_str(),
                sum.payload_up / sum.all_tokens, framed->value);
    bars.push_back(
        {"bytes up per token at " + cell.setting, *framed, kMaxUplinkBytes, Bar::Side::kAtMost});
    require_speculation(cell, outcome);
  }
  outcome.figures = {{"strategy", name_of(options.strategy)}, {"cells", cells_json(result)}};
  outcome.hold(bars);
  hold_run(result, outcome);
  return outcome;
}

// Of all paces together, prompt by prompt.
std::optional<Estimate> passes_over(const GridResult& result, const std::string& base,
                                    const std::string& variant, std::size_t prompts) {
  const auto passes_per_token = [&](const std::string& name, std::span<const std::size_t> indices) {
    AnswerFigures sum;
    for (const GridCell& cell : result.cells) {
      if (cell.variant == name) sum += sum_at(cell.answers, indices);
    }
    return sum.passes_per_token();
  };
  return bootstrap(prompts, [&](std::span<const std::size_t> indices) -> std::optional<double> {
    const auto below = passes_per_token(base, indices);
    const auto above = passes_per_token(variant, indices);
    if (!below || !above || *below <= 0) return std::nullopt;
    return *above / *below;
  });
}

Result<CheckOutcome> run_cost(const GridFlags& flags) {
  GridVariant cheap = variant_of(Strategy::kMirror);
  cheap.name = "mirror, cost";
  cheap.edge_flags = {"--optimize=cost"};
  OUTRIDER_ASSIGN_OR_RETURN(
      const GridExperiment experiment,
      make_experiment(flags, {variant_of(Strategy::kSd), cheap, variant_of(Strategy::kMirror)}));
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  const auto plain = sum_of_variant(result, "sd").passes_per_token();
  const AnswerFigures cheap_sum = sum_of_variant(result, cheap.name);
  const auto own = cheap_sum.passes_per_token();
  const AnswerFigures mirror = sum_of_variant(result, "mirror");
  const auto ratio = passes_over(result, "sd", cheap.name, experiment.plan.prompts.size());
  if (!plain || !own || !ratio || !mirror.predraft || !cheap_sum.predraft) {
    return failed_precondition("the answers are too short, or the edge counts no pre-drafting");
  }
  const std::uint64_t dead_rows = mirror.predraft->surplus_rows + cheap_sum.predraft->surplus_rows;
  std::printf("target passes per token: sd %.4f, mirror --optimize cost %.4f\n", *plain, *own);
  std::printf("rows computed for nodes that were dead: %llu\n",
              static_cast<unsigned long long>(dead_rows));
  CheckOutcome outcome;
  outcome.passed = dead_rows == 0;
  outcome.figures = {{"sd_passes_per_token", *plain},
                     {"cost_passes_per_token", *own},
                     {"rows_of_dead_nodes", dead_rows},
                     {"cells", cells_json(result)}};
  const Bar bar{"target passes for cost over sd", *ratio, 1, Bar::Side::kAtMost};
  outcome.hold({&bar, 1});
  hold_run(result, outcome);
  return outcome;
}

}  // namespace

void add_economy_checks(CheckList& checks) {
  auto bytes = std::make_shared<BytesOptions>();
  bytes->grid.paces = {"rtx-68m-7b"};
  CLI::App* command =
      checks.add("bytes", "Uplink bytes per committed token, with and without framing",
                 [bytes] { return run_bytes(*bytes); });
  add_choice(*command, "--strategy", bytes->strategy, "Whose bytes");
  add_grid_flags(*command, bytes->grid);
  auto cost = std::make_shared<GridFlags>();
  cost->paces = {"rtx-68m-7b"};
  add_grid_flags(*checks.add("cost", "Target passes per token, and rows spent on dead nodes",
                             [cost] { return run_cost(*cost); }),
                 *cost);
}

}  // namespace outrider
