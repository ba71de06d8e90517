// A training run: its directory, its steps, its checkpoints and metrics, whatever is learnt.
//
//   class MyLearner : public Learner { .. };
//   run_training(learner, options, names);   // to the end, a planned break, or a signal
//
// A run's directory holds the checkpoint (f32 tensors, moments, the step), metrics.jsonl, loss.svg
// and what the learner saves beside them. A learner whose steps are a function of their number goes
// on after a break bit for bit as if there had been none, on the same kind of CPU.
//
// Thread rule: one thread; libtorch uses its own pool underneath. SIGINT and SIGTERM, once
// stop_on_signals() has been called, end a run after the step at hand, with a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "adapters/train/llama.h"
#include "adapters/train/optimizer.h"
#include "adapters/train/run_files.h"
#include "common/base/status.h"

namespace outrider {

struct RunOptions {
  std::string out;  // the run's directory
  std::int64_t evaluate_every = 250;
  std::int64_t checkpoint_every = 250;
  std::int64_t stop_after = 0;  // steps of this run, for planned breaks; 0: all
  std::uint64_t seed = 1;
  bool resume = false;
  OptimizerOptions optimizer;
};

class Learner {
 public:
  virtual ~Learner() = default;

  // The next step: sets loss and gradient_norm, returns how many tokens it took in.
  virtual Result<std::int64_t> learn(StepMetrics& metrics) = 0;
  // Sets held_out.
  virtual Status measure(StepMetrics& metrics) = 0;

  // True ends the run before its last step: nothing is gained any more.
  virtual bool is_done() const { return false; }

  // Weights and moments.
  virtual NamedTensors state() const = 0;
  // Takes over the state after `steps` steps, and leaves their data behind. Throws as
  // AdamW::load_state().
  virtual Status restore(const NamedTensors& state, std::int64_t steps) = 0;
  // What a checkpoint is for beside going on: the model.
  virtual Status save() { return {}; }
};

struct RunNames {
  std::string name;        // on the progress line
  std::string title;       // of the loss plot
  std::string checkpoint;  // the file in the run's directory
};

// Errors: kInvalidArgument for a directory that holds another run; kCancelled: stopped by a signal,
// after a checkpoint; those of files and of the learner.
Status run_training(Learner& learner, const RunOptions& options, const RunNames& names);

void stop_on_signals();

}  // namespace outrider
