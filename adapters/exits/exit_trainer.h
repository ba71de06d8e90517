// Trains the exits of a frozen target, each on its own: an exit's loss reaches its own adapter
// only, so any of them could be trained alone, with the same result. Memory is that of the target,
// of one batch of hidden states, and of one exit's logits at a time.
//
// The run's (training_loop.h) checkpoint is exits.safetensors.
//
// Thread rule: as training_loop.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/exits/exit_module.h"
#include "adapters/exits/hidden_states.h"
#include "adapters/train/trainer.h"
#include "adapters/train/training_loop.h"
#include "common/exits/adapters.h"

namespace outrider {

struct ExitTrainOptions : RunOptions {
  ExitTrainOptions() { evaluate_every = checkpoint_every = 100; }

  std::vector<std::int32_t> layers;  // rising
  std::int64_t bottleneck = 64;
  std::int64_t rows = 512;  // learnt tokens of a step, at least
  ExitLoss loss = ExitLoss::kDivergence;
  double greedy_weight = 0.5;
  // On labels only: each exit has an output matrix of its own, and no adapter (LEVER's predictor);
  // weight of the loss among the labels' likeliest tokens (its eq. 8).
  bool own_head = false;
  double candidate_weight = 0;
};

// Trained adapters of `target`, without calibration and choice. target computes; files are the
// same model's. Errors: as train() in trainer.h.
Result<ExitAdapters> train_exits(Model& target, const ModelFiles& files, at::ScalarType compute,
                                 std::vector<Source> sources, const std::vector<HeldOut>& held_out,
                                 const ExitTrainOptions& options);

}  // namespace outrider
