// Answers of several rivals from one emulated flash, prompt by prompt, and their figures.
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

#include "bench/edges/bench_edge.h"
#include "bench/harness/answer.h"
#include "bench/paces/paces.h"
#include "bench/stats/statistics.h"
#include "common/base/status.h"
#include "common/decoding/drafting/trees/make_planner.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/engine/text/tokenizer.h"
#include "edge_client/speculation/strategies.h"
#include "edge_client/speculation/strategy.h"
#include "sim/memoized_model.h"
#include "sim/sim_edge.h"
#include "sim/virtual_run.h"

namespace outrider {

// The devices of LEVER ("Speculative LLM Inference on Smartphones", tables 1 and 2), as tables: a
// target that is streamed from flash in each pass.
//
//   lever-llama31-8b   reading 990.6 ms a pass; computing 93.2, 828 and 1255 ms at 1, 16, 32 rows
//   lever-qwen3-8b     its table 1 gives reading and one row; 817 and 1229 ms at 16 and 32 rows
//
// Our choice, where the paper gives no figures: linear interpolation, also beyond 32 rows; a draft
// step of 20 ms for a row and 90 % of that for each further row up to ten (EdgeLLM, figure 9: ten
// rows take 9.1 times as long as one), and no more beyond, as when it reads a prompt; reading and
// computing are spread evenly over the layers, and the output matrix has its share of the weights.
struct NamedFlashPace {
  std::string name;
  FlashPace device;
  double step_ms = 20;
};

// INVALID_ARGUMENT lists the names.
Result<NamedFlashPace> find_flash_pace(const std::string& name);

// A draft step's time by rows.
PaceCurve flash_step_curve(double step_ms);

// The rivals that decode from flash, and their properties: the baselines of LLMCad, EdgeLLM and
// LEVER as far as the papers define them, their policies, and ours.
//
//   flash-ar            one token a pass, reading and computing overlapped
//   flash-ar-serial     the same, but a layer is read when the one before has computed
//   flash-ar-mmap       serial, from a mapped file: layers are read page by page on first access,
//                       at the rate that this machine's disk then has (read_rate)
//   chain-N             N drafted tokens a pass (LEVER's Chain-SD: N = 8)
//   chain-N-provisional drafting on while a pass waits for its reads
//   chain-8-serial, chain-8-mmap   as flash-ar's
//   llmcad, edgellm, lever, fixed, top-n, outrider   trees (docs/trees.md)
//   edgellm-waiting, outrider-waiting   without provisional generation
//   outrider-with-exits   with the target's early exits as evidence, and the time of their heads
//   TREE-pruned         lever, fixed, top-n and outrider with pruning (docs/pruning.md)
struct TreeRival {
  std::string name;
  Strategy strategy = Strategy::kSd;
  TreeChoice tree = TreeKind::kChain;
  int gamma = 4;
  std::optional<bool> provisional = {};
  bool overlapped = true;  // reading with computing
  double read_rate = 1;    // relative to the flash's rate: less for a slow way of reading
  double prune_below = 0;  // a branch's least probability in the middle of a pass; 0: no pruning
  bool exits = false;      // use the target's exits as evidence, with their heads' time
};

// All of them, chains of 2 to 8 tokens.
std::vector<TreeRival> tree_rivals();

// The rivals of these names. INVALID_ARGUMENT lists the names.
Result<std::vector<TreeRival>> find_tree_rivals(const std::vector<std::string>& names);

// Answers of an edge without a link whose target is streamed from an emulated flash, in virtual
// time, with real models and real tokens (sim).
struct FlashModels {
  std::string target, draft, dtype = "auto";
  int threads = 0;
  double draft_blur = 0;  // deviation of the noise on the draft's logits (NoisyModel)
};

struct FlashAnswer {
  EdgeAnswer edge;
  PruneCounts pruned;
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
  };
  // memory: what this rival learnt of the device in earlier answers.
  Result<FlashAnswer> answer(const TreeRival& rival, const BenchPrompt& prompt,
                             const Setting& setting, std::shared_ptr<AnswerMemory> memory);

  // Starts the next prompt: rows memoized for the last one are freed.
  void next_prompt();

 private:
  SimEdgeSetup setup_of(const TreeRival& rival, const BenchPrompt& prompt, const Setting& setting,
                        std::shared_ptr<AnswerMemory> memory) const;
  FlashAnswers(std::unique_ptr<Model> target, std::unique_ptr<Model> draft,
               std::unique_ptr<ExitHeads> exits, Tokenizer tokenizer);

  MemoizedModel target_, draft_;
  const std::unique_ptr<ExitHeads> exits_;  // null: none
  const Tokenizer tokenizer_;
};

struct TreeRunOptions {
  FlashModels models{.target = "models/demo-target", .draft = "models/demo-draft"};
  std::size_t num_prompts = 20;  // of each file; 0: all
  std::string pace = "lever-llama31-8b";
  double step_ms = 20;  // of a draft step
  double resident = 0;  // share of the layers that stay in memory
  double temperature = 0;
  int buffers = 4;  // layers that are read ahead
  Position max_tokens = 96;
  int tree_size = 0;  // most nodes of a tree; 0: the policy's own bound
  std::uint64_t seed = 0;
};

// The results for one file of prompts: by rival, one answer per prompt.
struct TreeResults {
  std::string text;  // the file's name
  std::map<std::string, std::vector<AnswerFigures>> answers = {};
  std::map<std::string, PruneCounts> pruned = {};
  std::size_t mismatches = 0;

  // Null if the rival was not among them.
  const std::vector<AnswerFigures>* of(const std::string& rival) const;
};

// The device's behaviour as rivals learn it across answers, by name.
using RivalMemories = std::map<std::string, std::shared_ptr<AnswerMemory>>;

// Progress goes to stderr. Errors: of the prompts' file, the pace's name, and answers.
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
