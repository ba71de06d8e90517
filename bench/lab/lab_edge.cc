// outrider-lab-edge: outrider-edge with other systems' strategies and trees, and with emulated
// devices. The bench starts it; it is not packaged.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <memory>
#include <vector>

#include "bench/lab/flash_bandwidth.h"
#include "bench/lab/rivals.h"
#include "bench/lab/shaped_trees.h"
#include "common/engine/model/emulated/paced_model.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/quantities.h"
#include "edge_client/main/edge_main.h"
#include "edge_client/main/options.h"

namespace outrider {
namespace {

constexpr char kLabGroup[] = "Laboratory";

void add_lab_flags(CLI::App& command, AnswerOptions& options, std::vector<int>& widths) {
  GenerationConfig& config = options.generation;
  add_choice(command, "--client-queue", config.answer.speculation.queue,
             "fsd, mirror: which hypothesis is drafted first")
      ->group(kLabGroup);
  command.add_option("--tree-widths", widths, "--tree fixed: children of a node, by depth")
      ->delimiter(',')
      ->check(CLI::Range(1, 16))
      ->group(kLabGroup);
  add_parsed(
      command, "--pace-step-ms",
      "Emulate a slower device: each draft step takes MS; or ROWS:MS,ROWS:MS,..", PaceCurve::parse,
      [&config](const PaceCurve& pace) { config.draft_pacer = std::make_shared<CurvePacer>(pace); })
      ->group(kLabGroup);
  add_parsed(command, "--flash-bandwidth",
             "Of a pack: emulate a slower flash, as 400MB/s, ufs3.1, ufs4.0, ufs4.1 or nvme",
             parse_bandwidth, [&config](double bandwidth) { config.flash.bandwidth = bandwidth; })
      ->group(kLabGroup);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  std::vector<int> widths(std::begin(outrider::kSpecInferWidths),
                          std::end(outrider::kSpecInferWidths));
  const std::vector<outrider::GuestTree> trees = outrider::shaped_trees(widths);
  return outrider::edge_main(
      argc, argv,
      {.program = "outrider-lab-edge",
       .strategies = outrider::rival_strategies(),
       .trees = trees,
       .add_flags = [&widths](CLI::App& command, outrider::AnswerOptions& options) {
         outrider::add_lab_flags(command, options, widths);
       }});
}
