// Answers of a model to many prompts at once: training text for drafts, and action accuracy.
//
// One pass computes a row of each answer under way, so that the weights are read once for all of
// them; where an answer ends, the next prompt takes its place. The model is any that Outrider runs,
// in the arithmetic that it is served in.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/model.h"

namespace outrider {

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  float temperature = 0;   // 0: the likeliest token
  std::uint64_t seed = 1;  // a prompt's answer depends on its place among the prompts, too
  TokenId stop = 0;        // ends an answer; not part of it
  std::int64_t batch = 16;
};

// The answer to each prompt, without `stop`, cut where an 8-gram of tokens comes a second time.
// A prompt that fills the model's context has none. on_progress(done) counts answers.
// Errors: those of the model.
Result<std::vector<std::vector<TokenId>>> generate(
    Model& model, const std::vector<std::vector<TokenId>>& prompts, const GenerateOptions& options,
    const std::function<void(std::int64_t)>& on_progress);

}  // namespace outrider
