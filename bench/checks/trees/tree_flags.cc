// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/trees/tree_flags.h"

namespace outrider {

void add_tree_run_flags(CLI::App& command, TreeRunOptions& run, std::vector<std::string>& prompts) {
  command.add_option("--target", run.models.target, "Target: a directory or a GGUF file");
  command.add_option("--draft", run.models.draft, "Draft: a directory or a GGUF file");
  command.add_option("--threads", run.models.threads, "Compute threads; 0: one per core");
  command.add_option("--prompts", prompts, "JSONL file with \"prompt\"; may be repeated")
      ->required();
  command.add_option("--num-prompts", run.num_prompts, "Of each file; 0: all");
  command.add_option("--temp", run.temperature, "Temperature")->check(CLI::Range(0.0, 2.0));
  command.add_option("--max-tokens", run.max_tokens, "Tokens of an answer")
      ->check(CLI::Range(2, 100000));
  command.add_option("--seed", run.seed, "Seed of the noise");
}

}  // namespace outrider
