// Trains the exits of a frozen target. An exit's loss reaches its own adapter only, so each could
// be trained alone with the same result. Memory: the target, one batch of hidden states, and the
// logits of one exit at a time.
//
// The run's checkpoint (training_loop.h) is exits.safetensors.
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
#include "common/decoding/exits/adapters.h"

namespace outrider {

struct ExitTrainOptions : RunOptions {
  ExitTrainOptions() { evaluate_every = checkpoint_every = 100; }

  std::vector<std::int32_t> layers;  // ascending
  std::int64_t bottleneck = 64;
  std::int64_t rows = 512;  // smallest number of learnt tokens in a step
  ExitLoss loss = ExitLoss::kDivergence;
  double greedy_weight = 0.5;
  // With labels only: each exit has an output matrix of its own and no adapter (LEVER's predictor),
  // and this weight of the loss among the labels' likeliest tokens (LEVER's eq. 8).
  bool own_head = false;
  double candidate_weight = 0;
  double temperature = 1;            // of the divergence: LEVER's tau_KD
  double candidate_temperature = 1;  // of that among the likeliest tokens: tau_Cand
};

// Trained adapters of `target`, not calibrated and not yet chosen. target computes; files are the
// same model's. Errors: as train() in trainer.h.
Result<ExitAdapters> train_exits(Model& target, const ModelFiles& files, at::ScalarType compute,
                                 std::vector<Source> sources, const std::vector<HeldOut>& held_out,
                                 const ExitTrainOptions& options);

}  // namespace outrider
