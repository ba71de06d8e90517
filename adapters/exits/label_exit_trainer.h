// Trains a target's exits from labels that hold its hidden states (adapters/labels). The target
// itself does not run, and an exit's logits cover a shortlist only.
//
// Each exit's loss reaches its own adapter only, as in exit_trainer.h. The last shard is held out.
// Memory: one shard, the shortlist's rows of the output matrix, and one exit's logits of a step.
// The run's checkpoint (training_loop.h) is exits.safetensors.
//
// Thread rule: as training_loop.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "adapters/exits/exit_trainer.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/exits/adapters.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {

// The cost beside the target's files, known before the start: bytes, and multiply-adds of all
// steps.
struct ExitTrainCost {
  double bytes = 0, multiply_adds = 0;
};
Result<ExitTrainCost> label_exit_cost(const std::string& labels, const ExitTrainOptions& options,
                                      std::int64_t shortlist);

// Trained adapters of `target` with logits over `shortlist` (empty: all), not calibrated and not
// yet chosen. options.layers: some of the labels' layers; options.loss must be kDivergence. Errors:
// kFailedPrecondition for labels of another target or without a layer's hidden states;
// kInvalidArgument for labels of one shard; those of run_training().
Result<ExitAdapters> train_exits_on_labels(const std::string& labels, const ModelFiles& target,
                                           at::ScalarType compute,
                                           const std::vector<TokenId>& shortlist,
                                           const ExitTrainOptions& options);

}  // namespace outrider
