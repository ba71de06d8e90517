// AdamW (Loshchilov, Hutter 2019) with warm-up, cosine decay and clipping by the global norm.
//
// Weight decay applies to matrices, not to norm gains. A restored state continues bit for bit like
// an uninterrupted run. Thread rule: one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "adapters/train/llama.h"

namespace outrider {

struct OptimizerOptions {
  double learning_rate = 1e-3;   // at its peak
  double final_fraction = 0.05;  // of the peak, at the last step
  std::int64_t warmup_steps = 100;
  std::int64_t total_steps = 1000;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double max_gradient_norm = 1.0;
};

// Rises linearly to the peak over warmup_steps, then falls to final_fraction of it along half a
// cosine. step counts from 0.
double learning_rate_at(const OptimizerOptions& options, std::int64_t step);

class AdamW final {
 public:
  AdamW(const NamedTensors& parameters, const OptimizerOptions& options);

  // Scales the gradients so that their global norm is at most max_gradient_norm, updates the
  // parameters, frees the gradients. Returns the norm before scaling. Throws if it is not finite.
  double step();

  std::int64_t steps_done() const { return steps_done_; }

  // The moments "first." and "second." of each parameter.
  NamedTensors state() const;
  // Throws if a moment is missing or has another shape.
  void load_state(const NamedTensors& tensors, std::int64_t steps_done);

 private:
  struct Group {
    std::vector<at::Tensor> parameters, first, second, counts;
    double weight_decay = 0;
  };

  NamedTensors parameters_;
  std::vector<at::Tensor> first_, second_;  // as parameters_
  Group groups_[2];                         // matrices; gains
  OptimizerOptions options_;
  std::int64_t steps_done_ = 0;
};

}  // namespace outrider
