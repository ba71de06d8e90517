// A training run of any learner: its directory, its steps, its checkpoints and metrics.
//
//   class MyLearner : public Learner { .. };
//   run_training(learner, options, names);   // to the end, a planned break, or a signal
//
// A run's directory holds the checkpoint (f32 tensors, moments, the step), metrics.jsonl, loss.svg
// and the files that the learner saves. If a learner's steps are a function of their number, a
// resumed run equals an uninterrupted one bit for bit, on the same kind of CPU.
//
// Thread rule: one thread; libtorch uses its own pool underneath. After stop_on_signals(), SIGINT
// and SIGTERM end a run after the current step, with a checkpoint.
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

  // Before the first step: writes the small files of the result, so that a directory that cannot
  // hold it is refused at once.
  virtual Status prepare() { return {}; }
  // Runs the next step: sets loss and gradient_norm, returns the number of tokens that it read.
  virtual Result<std::int64_t> learn(StepMetrics& metrics) = 0;
  // Sets held_out.
  virtual Status measure(StepMetrics& metrics) = 0;

  // True ends the run before its last step, because the loss no longer falls.
  virtual bool is_done() const { return false; }

  // Weights and moments.
  virtual NamedTensors state() const = 0;
  // Restores the state after `steps` steps, and skips the data of those steps. Throws as
  // AdamW::load_state().
  virtual Status restore(const NamedTensors& state, std::int64_t steps) = 0;
  // Writes the result, the model, at a checkpoint.
  virtual Status save() { return {}; }
};

struct RunNames {
  std::string name;        // on the progress line
  std::string title;       // of the loss plot
  std::string checkpoint;  // the file in the run's directory
};

// Errors: kInvalidArgument for a directory that holds another run; kCancelled if a signal stopped
// it, after a checkpoint; those of files and of the learner.
Status run_training(Learner& learner, const RunOptions& options, const RunNames& names);

void stop_on_signals();

}  // namespace outrider
