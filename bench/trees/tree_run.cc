// SPDX-License-Identifier: Apache-2.0
#include "bench/trees/tree_run.h"

#include <cstdio>
#include <filesystem>

namespace outrider {

const std::vector<AnswerFigures>* TreeResults::of(const std::string& rival) const {
  const auto found = answers.find(rival);
  return found == answers.end() ? nullptr : &found->second;
}

void TreeResults::add(const TreeResults& other) {
  for (const auto& [name, figures] : other.answers) {
    answers[name].insert(answers[name].end(), figures.begin(), figures.end());
  }
  for (const auto& [name, counts] : other.pruned) pruned[name] += counts;
  mismatches += other.mismatches;
}

Result<TreeResults> run_trees(FlashAnswers& flash, const TreeRunOptions& options,
                              const std::vector<TreeRival>& rivals, const std::string& path,
                              RivalMemories& memories) {
  TreeResults results{.text = std::filesystem::path(path).stem().string()};
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts,
                            read_prompts(path, flash.tokenizer(), options.num_prompts));
  FlashAnswers::Setting setting;
  OUTRIDER_ASSIGN_OR_RETURN(setting.pace, find_flash_pace(options.pace));
  setting.pace.step_ms = options.step_ms;
  setting.pace.device.resident = options.resident;
  setting.pace.device.buffers = options.buffers;
  setting.sampling.temperature = static_cast<float>(options.temperature);
  setting.seed = options.seed;
  setting.max_tokens = options.max_tokens;
  setting.tree_size = options.tree_size;
  setting.network = options.network;
  for (const BenchPrompt& prompt : prompts) {
    std::vector<TokenId> expected;
    for (const TreeRival& rival : rivals) {
      std::shared_ptr<AnswerMemory>& memory = memories[rival.name];
      if (memory == nullptr) memory = std::make_shared<AnswerMemory>();
      OUTRIDER_ASSIGN_OR_RETURN(const FlashAnswer answer,
                                flash.answer(rival, prompt, setting, memory));
      const EdgeAnswer& edge = answer.edge;
      if (expected.empty()) expected = edge.record.ids;
      results.mismatches += edge.record.ids == expected ? 0 : 1;
      results.answers[rival.name].push_back(edge.figures);
      results.pruned[rival.name] += answer.pruned;
    }
    flash.next_prompt();
    std::fprintf(stderr, "\r%s: %zu of %zu prompts ", results.text.c_str(),
                 results.answers[rivals.front().name].size(), prompts.size());
  }
  std::fprintf(stderr, "\n");
  return results;
}

std::optional<double> tokens_per_pass(const AnswerFigures& figures) {
  if (figures.passes <= 0) return std::nullopt;
  return figures.tokens / figures.passes;
}

std::optional<double> nodes_per_round(const AnswerFigures& figures) {
  if (figures.passes <= 0) return std::nullopt;
  return figures.drafted / figures.passes;
}

std::optional<Estimate> mean(const std::vector<AnswerFigures>& answers, TreeFigure figure) {
  return bootstrap(answers.size(), [&](std::span<const std::size_t> drawn) {
    return figure(sum_at(answers, drawn));
  });
}

double share_saved(const PruneCounts& pruned) {
  if (pruned.rows == 0) return 0;
  return static_cast<double>(pruned.rows_ended) / static_cast<double>(pruned.rows);
}

}  // namespace outrider
