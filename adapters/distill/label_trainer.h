// Trains a draft on a teacher's cached labels, with early stopping.
//
// Every sixteenth document is held out. The run (training_loop.h) writes the draft of its best
// measurement at checkpoints: whole, or, if its embedding is frozen, without it
// (shape/compose.h).
//
// Thread rule: as training_loop.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "adapters/distill/label_batches.h"
#include "adapters/train/llama.h"
#include "adapters/train/training_loop.h"
#include "common/model/format/dtype.h"

namespace outrider {

struct LabelTrainOptions : RunOptions {
  std::string tokenizer;       // whose files a whole draft gets
  std::int64_t tokens = 2048;  // of a step, at most
  double greedy_weight = 0.5;  // of the teacher's likeliest token beside its distribution
  std::int64_t patience = 4;   // measurements without a gain that end the run; 0: any number
  bool frozen_embedding = false;
  DType dtype = DType::kBF16;  // of the written draft
};

// Of the draft's logits at a batch's places.
LabelLoss draft_loss(const Llama& draft, const LabelBatch& batch, double greedy_weight);

// What training costs beside the labels: weights, gradients, moments and a step's activations.
std::int64_t label_training_bytes(const Llama& draft, const LabelTrainOptions& options);
// Multiply-adds of a pass over one token, forwards; a step takes three times as many.
std::int64_t multiply_adds_per_token(const Llama& draft);

// Errors: kInvalidArgument for steps that do not fit the draft's context and fewer than 17
// documents; those of run_training().
Status train_on_labels(Llama& draft, const LabelSet& labels, const LabelTrainOptions& options);

}  // namespace outrider
