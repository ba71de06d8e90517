// What mirrored sends spend: bytes of the uplink, passes and rows of the target.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/checks/checks.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/summary.h"
#include "common/cli/choice.h"

namespace outrider {
namespace {

constexpr double kMaxUplinkBytes = 200;  // per committed token, framing included

// All cells of a variant together.
AnswerFigures sum_of_variant(const GridResult& result, const std::string& variant) {
  AnswerFigures sum;
  for (const GridCell& cell : result.cells) {
    if (cell.variant == variant) sum += sum_of(cell.answers);
  }
  return sum;
}

Json cells_json(const GridResult& result) {
  Json cells = Json::array();
  for (const GridCell& cell : result.cells) cells.push_back(cell_json(result, cell));
  return cells;
}

struct BytesOptions {
  GridFlags grid;
  Strategy strategy = Strategy::kMirror;
};

Result<CheckOutcome> run_bytes(const BytesOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_experiment(options.grid));
  experiment.plan.variants = {variant_of(options.strategy)};
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  CheckOutcome outcome;
  outcome.passed = result.mismatches == 0;
  double most = 0;
  for (const GridCell& cell : result.cells) {
    const AnswerFigures sum = sum_of(cell.answers);
    if (sum.all_tokens <= 0) return failed_precondition("the answers are empty");
    const double framed = sum.wire_up / sum.all_tokens;
    std::printf("%-22s %6.1f B payload, %6.1f B with framing up per token\n", cell.setting.c_str(),
                sum.payload_up / sum.all_tokens, framed);
    most = std::max(most, framed);
  }
  outcome.passed = outcome.passed && most <= kMaxUplinkBytes;
  outcome.figures = {{"strategy", name_of(options.strategy)},
                     {"most_wire_up_per_token", most},
                     {"bar", kMaxUplinkBytes},
                     {"mismatches", result.mismatches},
                     {"cells", cells_json(result)}};
  return outcome;
}

Result<CheckOutcome> run_cost(const GridFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_experiment(flags));
  GridVariant cheap = variant_of(Strategy::kMirror);
  cheap.name = "mirror, cost";
  cheap.edge_flags = {"--optimize=cost"};
  experiment.plan.variants = {variant_of(Strategy::kSd), cheap, variant_of(Strategy::kMirror)};
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  const auto plain = sum_of_variant(result, "sd").passes_per_token();
  const AnswerFigures cheap_sum = sum_of_variant(result, cheap.name);
  const auto own = cheap_sum.passes_per_token();
  const AnswerFigures mirror = sum_of_variant(result, "mirror");
  if (!plain || !own || !mirror.predraft || !cheap_sum.predraft) {
    return failed_precondition("the answers are too short, or the edge counts no pre-drafting");
  }
  const std::uint64_t dead_rows = mirror.predraft->surplus_rows + cheap_sum.predraft->surplus_rows;
  std::printf("target passes per token: sd %.4f, mirror --optimize cost %.4f\n", *plain, *own);
  std::printf("rows computed for nodes that were dead: %llu\n",
              static_cast<unsigned long long>(dead_rows));
  CheckOutcome outcome;
  outcome.passed = result.mismatches == 0 && *own <= *plain && dead_rows == 0;
  outcome.figures = {{"sd_passes_per_token", *plain},
                     {"cost_passes_per_token", *own},
                     {"rows_of_dead_nodes", dead_rows},
                     {"mismatches", result.mismatches},
                     {"cells", cells_json(result)}};
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
