// Answers of a model to many prompts at once: training text for drafts, and action accuracy.
//
// Thread rule: one thread; libtorch uses its pool. Errors of libtorch are exceptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "adapters/train/llama.h"
#include "common/base/types.h"

namespace outrider {

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  double temperature = 0;  // 0: the likeliest token
  std::uint64_t seed = 1;
  TokenId stop = 0;  // ends an answer; not part of it
  std::int64_t batch = 64;
};

// The answer to each prompt, without `stop`, cut where an 8-gram of tokens comes a second time.
// Prompts of equal length decode together, so the order of work is not that of the prompts;
// on_progress(done) counts them.
std::vector<std::vector<TokenId>> generate(const Llama& model,
                                           const std::vector<std::vector<TokenId>>& prompts,
                                           const GenerateOptions& options,
                                           const std::function<void(std::int64_t)>& on_progress);

}  // namespace outrider
