// Answers of several rivals from one emulated flash, prompt by prompt, and what they give.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/answer.h"
#include "bench/harness/statistics.h"
#include "bench/trees/flash_answers.h"
#include "bench/trees/tree_rivals.h"

namespace outrider {

struct TreeRunOptions {
  FlashModels models{.target = "models/demo-target", .draft = "models/demo-draft"};
  std::size_t num_prompts = 20;  // of each file; 0: all
  std::string pace = "lever-llama31-8b";
  double step_ms = 20;  // of a draft step
  double resident = 0;  // share of the layers that stay in memory
  double temperature = 0;
  int buffers = 4;  // layers that are read ahead
  Position max_tokens = 96;
  int tree_size = 0;                      // most nodes of a tree; 0: the policy's own bound
  std::optional<PaperPace> network = {};  // instead of a flash
  std::uint64_t seed = 0;
};

// Of one file of prompts: by rival, an answer for each prompt.
struct TreeResults {
  std::string text;  // the file's name
  std::map<std::string, std::vector<AnswerFigures>> answers = {};
  std::map<std::string, PruneCounts> pruned = {};
  std::size_t mismatches = 0;

  // Null if the rival was not among them.
  const std::vector<AnswerFigures>* of(const std::string& rival) const;
  // The figures of another file, as if they were this one's.
  void add(const TreeResults& other);
};

// What rivals learn of the device from answer to answer, by name.
using RivalMemories = std::map<std::string, std::shared_ptr<AnswerMemory>>;

// Progress goes to stderr. Errors: of the prompts' file, of the pace's name, of answers.
Result<TreeResults> run_trees(FlashAnswers& flash, const TreeRunOptions& options,
                              const std::vector<TreeRival>& rivals, const std::string& path,
                              RivalMemories& memories);

using TreeFigure = std::optional<double> (*)(const AnswerFigures&);
std::optional<double> tokens_per_pass(const AnswerFigures& figures);
std::optional<double> nodes_per_round(const AnswerFigures& figures);
std::optional<Estimate> mean(const std::vector<AnswerFigures>& answers, TreeFigure figure);
// Of the rows of trees, behind the layer where branches end; 0 if none was pruned.
double share_saved(const PruneCounts& pruned);

}  // namespace outrider
