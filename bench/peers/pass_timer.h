// Runs passes of a number of rows behind a number of tokens and times them, for comparisons of
// speed. The tokens are arbitrary: a pass's time does not depend on them.
//
// Thread rule: one thread, the model's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/engine/model/model.h"

namespace outrider {

class PassTimer final {
 public:
  // capacity: tokens and rows in total. model must outlive this object.
  static Result<PassTimer> make(Model& model, int capacity);

  // Seconds of a chain of `rows` rows with logits, behind `context` tokens. The context is kept
  // between calls; extending it is not timed.
  Result<double> time_pass(int rows, int context);

  // Seconds of a prompt of `tokens` tokens whose last one has logits. Leaves no context.
  Result<double> time_prefill(int tokens);

 private:
  PassTimer(Model& model, std::unique_ptr<KvCache> cache)
      : model_(&model), cache_(std::move(cache)) {}

  // Runs a chain at the end of the context, and adds it to the context on request.
  Result<double> run(int rows, bool all_logits, bool commit);

  Model* model_;
  std::unique_ptr<KvCache> cache_;
  PassOutput out_;
};

}  // namespace outrider
