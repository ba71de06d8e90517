// Runs passes of so many rows behind so many tokens and times them: for comparisons of speed. The
// tokens are made up; how long a pass takes does not depend on them.
//
// Thread rule: one thread, the model's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

class PassRunner final {
 public:
  // capacity: tokens and rows at one time. model outlives this.
  static Result<PassRunner> make(Model& model, int capacity);

  // Seconds of a chain of `rows` rows with logits, behind `context` tokens. The context stays from
  // call to call; making it longer is not timed.
  Result<double> time_pass(int rows, int context);

  // Seconds of a prompt of `tokens` tokens, of which the last has logits. Leaves no context.
  Result<double> time_prefill(int tokens);

 private:
  PassRunner(Model& model, std::unique_ptr<KvCache> cache)
      : model_(&model), cache_(std::move(cache)) {}

  // A chain at the end of the context; the context grows by it if told to.
  Result<double> run(int rows, bool all_logits, bool commit);

  Model* model_;
  std::unique_ptr<KvCache> cache_;
  PassOutput out_;
};

}  // namespace outrider
