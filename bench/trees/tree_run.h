// Answers of several rivals from one emulated flash, prompt by prompt, and their figures.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/edges/bench_edge.h"
#include "bench/harness/answer.h"
#include "bench/lab/big_little.h"
#include "bench/lab/merged_drafts.h"
#include "bench/stats/statistics.h"
#include "bench/trees/flash_paces.h"
#include "bench/trees/tree_rivals.h"
#include "common/base/status.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/engine/text/tokenizer.h"
#include "edge_client/speculation/strategies.h"
#include "sim/memoized_model.h"
#include "sim/sim_edge.h"
#include "sim/virtual_run.h"

namespace outrider {

// Answers of an edge without a link whose target is streamed from an emulated flash, in virtual
// time, with real models and real tokens (sim).
struct FlashModels {
  std::string target, draft, dtype = "auto";
  int threads = 0;
  double draft_blur = 0;  // deviation of the noise on the draft's logits (NoisyModel)
  // A pair without weights, whose draft agrees with its target after this share of all texts
  // (SyntheticModel), with the vocabulary of `target`; nothing: the models.
  std::optional<double> agreement = {};
};

// A verification, as it went on the edge's clock.
struct RoundTrace {
  double at_ms = 0;       // of the verdict, since the answer began
  double pass_ms = 0;     // of the target
  std::size_t depth = 0;  // of the deepest node that it verified; 0: none
  std::size_t accepted = 0;
  std::size_t steps_beside = 0;  // of the draft that ended while the target verified
  double beside_ms = 0;          // from the round's leaving to the last of those
};

struct FlashAnswer {
  EdgeAnswer edge;
  PruneCounts pruned;
  std::vector<RoundTrace> rounds;
};

class FlashAnswers final {
 public:
  static Result<std::unique_ptr<FlashAnswers>> load(const FlashModels& models);

  const Tokenizer& tokenizer() const { return tokenizer_; }

  struct Setting {
    NamedFlashPace pace;
    SamplingParams sampling = {};
    std::uint64_t seed = 0;
    Position max_tokens = 96;
    int tree_size = 0;  // most nodes of a tree; 0: the policy's own bound
    std::optional<EnergyModel> energy = {};
  };
  // memory: what this rival learnt of the device in earlier answers.
  Result<FlashAnswer> answer(const TreeRival& rival, const BenchPrompt& prompt,
                             const Setting& setting, std::shared_ptr<AnswerMemory> memory);

  // How many of the answer's tokens the draft's likeliest token is, if it reads the target's text
  // up to each of them.
  Result<std::size_t> correct_tokens(const BenchPrompt& prompt, const std::vector<TokenId>& answer);

  // Starts the next prompt: rows memoized for the last one are freed.
  void next_prompt();

 private:
  struct Parts {
    std::unique_ptr<Model> target, draft, second;
    std::unique_ptr<ExitHeads> exits;
    Tokenizer tokenizer;
  };
  static Result<std::unique_ptr<Model>> load_draft(const FlashModels& models);
  FlashAnswers(FlashModels models, Parts parts);

  SimEdgeSetup setup_of(const TreeRival& rival, const BenchPrompt& prompt, const Setting& setting,
                        std::shared_ptr<AnswerMemory> memory) const;
  Result<Model*> target_of(const TreeRival& rival, const BenchPrompt& prompt);
  Result<std::unique_ptr<Model>> make_shards(const BenchPrompt& prompt) const;

  const FlashModels models_;
  MemoizedModel target_, draft_, second_;
  MergedDrafts merged_;
  LenientTarget lenient_;
  std::unique_ptr<MemoizedModel> shards_;   // null: not made yet
  const std::unique_ptr<ExitHeads> exits_;  // null: none
  const Tokenizer tokenizer_;
};

struct TreeRunOptions {
  FlashModels models{.target = "models/demo-target", .draft = "models/demo-draft"};
  std::size_t num_prompts = 20;  // of each file; 0: all
  std::string pace = "lever-llama31-8b";
  std::optional<double> step_ms = {};  // of a draft step; nothing: the pace's
  double resident = 0;                 // share of the layers that stay in memory
  double temperature = 0;
  int buffers = 4;  // layers that are read ahead
  Position max_tokens = 96;
  int tree_size = 0;  // most nodes of a tree; 0: the policy's own bound
  std::uint64_t seed = 0;
  std::optional<EnergyModel> energy = {};  // of the device; the answers' figures then have joules
};

// The results for one file of prompts: by rival, one answer per prompt.
struct TreeResults {
  std::string text;  // the file's name
  std::map<std::string, std::vector<AnswerFigures>> answers = {};
  std::map<std::string, PruneCounts> pruned = {};
  std::map<std::string, std::vector<RoundTrace>> rounds = {};
  std::map<std::string, std::vector<double>> likeness = {};  // Rouge-L to the first rival's text
  std::size_t mismatches = 0;                                // of lossless rivals
  // The first rival's tokens, and those among them that the draft would have written.
  std::size_t tokens = 0, correct = 0;

  // Null if the rival was not among them.
  const std::vector<AnswerFigures>* of(const std::string& rival) const;
};

// The device's behaviour as rivals learn it across answers, by name.
using RivalMemories = std::map<std::string, std::shared_ptr<AnswerMemory>>;

// The first rival is lossless: the others' texts are compared with its own. Progress goes to
// stderr. Errors: of the prompts' file, the pace's name, and answers.
Result<TreeResults> run_trees(FlashAnswers& flash, const TreeRunOptions& options,
                              const std::vector<TreeRival>& rivals, const std::string& path,
                              RivalMemories& memories);

using TreeFigure = std::optional<double> (*)(const AnswerFigures&);
std::optional<double> tokens_per_pass(const AnswerFigures& figures);
std::optional<double> nodes_per_round(const AnswerFigures& figures);
std::optional<Estimate> mean(const std::vector<AnswerFigures>& answers, TreeFigure figure);
// The share of the trees' rows that was saved after the layer where branches end; 0 without
// pruning.
double share_saved(const PruneCounts& pruned);

}  // namespace outrider
