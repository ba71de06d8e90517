// Trains a model on text: with next_token_loss() to pretrain, with distillation_loss() to distill.
//
// The run (training_loop.h) writes the model, a Hugging Face directory, at every checkpoint.
// Weights and moments are f32. The batches are a function of sources, seed and step.
//
// Thread rule: as training_loop.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adapters/data/corpus.h"
#include "adapters/train/llama.h"
#include "adapters/train/training_loop.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {

struct TrainOptions : RunOptions {
  std::string tokenizer;  // the directory whose tokenizer is copied to the model
  std::int64_t batch = 6;
  std::int64_t length = 384;
  // Every n-th batch has half as many sequences of twice the length. In these a document sees the
  // documents before it, like turns of a chat; in all others each document sees itself alone.
  std::int64_t long_every = 10;
  DType dtype = DType::kBF16;  // of the written model
};

// One batch: [batch, length] inputs, and the tokens to learn.
struct Batch {
  at::Tensor ids;      // [batch, length] int64
  at::Tensor targets;  // [n] int64: the tokens to predict
  at::Tensor places;   // [n] int64: the rows, of batch * length, that predict them
  at::Tensor starts;   // [batch * length] int64: the first position that each position sees
};

struct HeldOut {
  std::string name;
  std::vector<Document> documents;  // `learnt` marks the answers
};

// The loss of a batch: a scalar with autograd history.
using LossFunction = std::function<at::Tensor(const Batch&)>;

at::Tensor next_token_loss(const Llama& model, const Batch& batch);

// The draft learns to predict what the target would say (Hinton et al. 2015; on the target's own
// text, after Agarwal et al. 2024). Per learnt token: KL(target || draft) of the whole
// distribution, plus `greedy_weight` times the cross entropy with the target's likeliest token,
// which is what greedy verification compares.
at::Tensor distillation_loss(const Llama& draft, const Llama& target, const Batch& batch,
                             double greedy_weight);

// Trains `model` to options.optimizer.total_steps (or stop_after). Errors: kInvalidArgument for a
// batch that does not fit the model's context; kFailedPrecondition when the gradient is not finite;
// those of run_training().
Status train(Llama& model, Packer packer, const LossFunction& loss,
             const std::vector<HeldOut>& held_out, const TrainOptions& options);

}  // namespace outrider
