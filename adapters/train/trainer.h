// The training loop: batches, steps, held-out loss, checkpoints, metrics. Used by pretrain and,
// with another loss, by distill.
//
// A run's directory holds the model (a Hugging Face directory, rewritten at every checkpoint),
// checkpoint.safetensors, metrics.jsonl and loss.svg. A resumed run goes on bit for bit as if it
// had never stopped, on the same kind of CPU: weights and moments are f32 and kept whole, and the
// batches are a function of sources, seed and step.
//
// Thread rule: one thread; libtorch uses its own pool underneath. SIGINT and SIGTERM, once
// stop_on_signals() has been called, end a run after the step at hand, with a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adapters/data/corpus.h"
#include "adapters/train/llama.h"
#include "adapters/train/optimizer.h"
#include "common/model/dtype.h"

namespace outrider {

struct TrainOptions {
  std::string out;        // the run's directory
  std::string tokenizer;  // the directory whose tokenizer the model gets
  std::int64_t batch = 6;
  std::int64_t length = 384;
  // Every n-th batch has half as many sequences, twice as long, whose documents see the ones before
  // them, as the turns of a chat do; in all others each document sees itself alone.
  std::int64_t long_every = 10;
  std::int64_t evaluate_every = 250;
  std::int64_t checkpoint_every = 250;
  std::int64_t stop_after = 0;  // steps of this run, for planned breaks; 0: all
  std::uint64_t seed = 1;
  bool resume = false;
  DType dtype = DType::kBF16;  // of the written model
  OptimizerOptions optimizer;
};

// One batch: [batch, length] inputs, and what is learnt of it.
struct Batch {
  at::Tensor ids;      // [batch, length] int64
  at::Tensor targets;  // [n] int64: the tokens to predict
  at::Tensor places;   // [n] int64: the rows, of batch * length, that predict them
  at::Tensor starts;   // [batch * length] int64: the first position that each sees
};

struct HeldOut {
  std::string name;
  std::vector<Document> documents;  // learnt marks the answers
};

// The loss of a batch: a scalar with autograd history.
using LossFunction = std::function<at::Tensor(const Batch&)>;

at::Tensor next_token_loss(const Llama& model, const Batch& batch);

// Trains `model` to options.optimizer.total_steps (or stop_after). Errors: kInvalidArgument for a
// batch that does not fit the model's context or a directory that holds another run;
// kFailedPrecondition when the gradient is not finite; those of files. kCancelled: stopped by a
// signal, after a checkpoint.
Status train(Llama& model, Packer packer, const LossFunction& loss,
             const std::vector<HeldOut>& held_out, const TrainOptions& options);

void stop_on_signals();
// One of the signals has come.
bool stop_was_asked_for();

}  // namespace outrider
