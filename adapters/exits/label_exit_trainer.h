// Trains a target's exits from labels that keep its hidden states (adapters/labels): the target
// itself runs no more, and each exit's logits are those of a shortlist only.
//
// Each exit's loss reaches its own adapter only, as in exit_trainer.h. The last shard is held out.
// Memory is that of one shard, the shortlist's rows of the output matrix, and one exit's logits of
// a step. The run's (training_loop.h) checkpoint is exits.safetensors.
//
// Thread rule: as training_loop.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "adapters/exits/exit_trainer.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/exits/adapters.h"
#include "common/model/format/model_files.h"

namespace outrider {

// Beside the target's files, before the start: bytes, and multiply-adds of all steps.
struct ExitTrainCost {
  double bytes = 0, multiply_adds = 0;
};
Result<ExitTrainCost> label_exit_cost(const std::string& labels, const ExitTrainOptions& options,
                                      std::int64_t shortlist);

// Trained adapters of `target`, whose logits are over `shortlist` (empty: all), without calibration
// and choice. options.layers: of those that the labels keep; options.loss must be kDivergence.
// Errors: kFailedPrecondition for labels of another target, or without a layer's hidden states;
// kInvalidArgument for labels of one shard; those of run_training().
Result<ExitAdapters> train_exits_on_labels(const std::string& labels, const ModelFiles& target,
                                           at::ScalarType compute,
                                           const std::vector<TokenId>& shortlist,
                                           const ExitTrainOptions& options);

}  // namespace outrider
