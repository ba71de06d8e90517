// The logits of all rows of a text that a model reads in parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/model/model.h"

namespace outrider {

// [tokens, vocab]
inline std::vector<float> chunked_logits(Model& model, std::span<const TokenId> tokens,
                                         std::size_t chunk) {
  const auto cache = *model.new_cache(static_cast<std::int32_t>(tokens.size()) + 1);
  std::vector<float> logits;
  PassOutput out;
  Slot last = kRootSlot;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    std::vector<Row> rows;
    for (const TokenId token : tokens.subspan(begin, std::min(chunk, tokens.size() - begin))) {
      last = *cache->slots().append(last);
      rows.push_back({cache.get(), last, token, true});
    }
    const Status done = model.forward(rows, out);
    EXPECT_TRUE(done.ok()) << done.to_string();
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
  }
  return logits;
}

}  // namespace outrider
