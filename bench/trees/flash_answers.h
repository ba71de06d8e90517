// Answers of an edge without a link whose target is streamed from an emulated flash, or of one with
// a server, in virtual time: real models, real tokens (bench/sim).
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/answer.h"
#include "bench/paces/flash_paces.h"
#include "bench/paces/paces.h"
#include "bench/prompts/prompts.h"
#include "bench/sim/remembering_model.h"
#include "bench/sim/sim_edge.h"
#include "bench/trees/tree_rivals.h"
#include "common/exits/exit_heads.h"
#include "common/text/tokenizer.h"
#include "common/verify/scheduler_stats.h"
#include "edge_client/speculation/tree_strategy.h"

namespace outrider {

struct FlashModels {
  std::string target, draft, dtype = "auto";
  int threads = 0;
  double draft_blur = 0;  // noise on the draft's logits (bench/device/blurred_model.h)
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
    // Instead of a flash: a server's target, over a link. Without early exits, whose cost no table
    // of that pace prints.
    std::optional<PaperPace> network = {};
  };
  // memory: what earlier answers of this rival learnt of the device.
  Result<FlashAnswer> answer(const TreeRival& rival, const BenchPrompt& prompt,
                             const Setting& setting, std::shared_ptr<AnswerMemory> memory);

  // The next prompt: what the models computed for the last one is forgotten.
  void next_prompt();

 private:
  SimEdgeSetup setup_of(const TreeRival& rival, const BenchPrompt& prompt, const Setting& setting,
                        std::shared_ptr<AnswerMemory> memory) const;
  FlashAnswers(std::unique_ptr<Model> target, std::unique_ptr<Model> draft,
               std::unique_ptr<ExitHeads> exits, Tokenizer tokenizer);

  RememberingModel target_, draft_;
  const std::unique_ptr<ExitHeads> exits_;  // null: none
  const Tokenizer tokenizer_;
};

}  // namespace outrider
