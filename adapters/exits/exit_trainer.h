// Trains the exits of a frozen target, each on its own: an exit's loss reaches its own adapter
// only, so any of them could be trained alone, with the same result. Memory is that of the target,
// of one batch of hidden states, and of one exit's logits at a time: a 7B's exits train on one GPU.
//
// A run's directory holds exits.safetensors (adapters in f32, moments, step), metrics.jsonl and
// loss.svg. A resumed run goes on as if it had never stopped.
//
// Thread rule: one thread; libtorch uses its own pool underneath. SIGINT and SIGTERM, once
// stop_on_signals() has been called, end a run after the step at hand, with a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/exits/exit_module.h"
#include "adapters/exits/hidden_states.h"
#include "adapters/train/optimizer.h"
#include "adapters/train/trainer.h"
#include "common/exits/adapters.h"

namespace outrider {

struct ExitTrainOptions {
  std::string out;
  std::vector<std::int32_t> layers;  // rising
  std::int64_t bottleneck = 64;
  std::int64_t rows = 512;  // learnt tokens of a step, at least
  ExitLoss loss = ExitLoss::kDivergence;
  double greedy_weight = 0.5;
  std::int64_t evaluate_every = 100;
  std::int64_t checkpoint_every = 100;
  std::int64_t stop_after = 0;  // steps of this run; 0: all
  std::uint64_t seed = 1;
  bool resume = false;
  OptimizerOptions optimizer;
};

// Trained adapters of `target`, without calibration and choice. target computes; files are the
// same model's. Errors: as train() in trainer.h.
Result<ExitAdapters> train_exits(Model& target, const ModelFiles& files, at::ScalarType compute,
                                 std::vector<Source> sources, const std::vector<HeldOut>& held_out,
                                 const ExitTrainOptions& options);

}  // namespace outrider
