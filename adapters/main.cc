// outrider-train: makes tokenizers, data and models (adapters/README.md).
// SPDX-License-Identifier: Apache-2.0
#include "adapters/commands/commands.h"
#include "common/serving/cli/program.h"

int main(int argc, char** argv) {
  outrider::Program program("outrider-train", "Makes tokenizers, data and models.");
  outrider::CommandList commands(program.app());
  outrider::add_tokenizer_command(commands);
  outrider::add_data_commands(commands);
  outrider::add_shape_commands(commands);
  outrider::add_plot_command(commands);
  outrider::add_generate_commands(commands);
  outrider::add_evaluate_command(commands);
  outrider::add_label_commands(commands);
#ifdef OUTRIDER_TRAIN_TORCH
  outrider::add_pretrain_command(commands);
  outrider::add_distill_command(commands);
  outrider::add_exits_command(commands);
  outrider::add_predictor_command(commands);
  outrider::add_elastic_commands(commands);
#endif
  program.app().require_subcommand(1);
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  return program.finish(commands.run_chosen());
}
