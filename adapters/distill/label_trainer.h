// Trains a draft on a teacher's cached labels, with early stopping.
//
// Every sixteenth document is held out. A checkpoint of the run (training_loop.h) holds the draft
// of the best measurement, without its embedding if that is frozen (shape/compose.h).
//
// Thread rule: as training_loop.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "adapters/distill/label_batches.h"
#include "adapters/train/llama.h"
#include "adapters/train/training_loop.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {

struct LabelTrainOptions : RunOptions {
  std::string tokenizer;       // its files are copied beside a whole draft
  std::int64_t tokens = 2048;  // largest number in a step
  double greedy_weight = 0.5;  // of the teacher's likeliest token, relative to its distribution
  std::int64_t patience = 4;   // end the run after this many measurements without a gain; 0: never
  bool frozen_embedding = false;
  DType dtype = DType::kBF16;  // of the written draft
};

// The loss of the draft's logits at a batch's places.
LabelLoss draft_loss(const Llama& draft, const LabelBatch& batch, double greedy_weight);

// The memory that training takes in addition to the labels: weights, gradients, moments and a
// step's activations.
std::int64_t label_training_bytes(const Llama& draft, const LabelTrainOptions& options);
// Multiply-adds of a forward pass over one token; a step takes three times as many.
std::int64_t multiply_adds_per_token(const Llama& draft);

// Errors: kInvalidArgument for steps that do not fit the draft's context and for fewer than 17
// documents; those of run_training().
Status train_on_labels(Llama& draft, const LabelSet& labels, const LabelTrainOptions& options);

}  // namespace outrider
