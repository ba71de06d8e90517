// Times of passes of many rows behind a long context, against what they cannot do without.
//
// Thread rule: one thread calls. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/check.h"
#include "common/base/status.h"
#include "common/model/format/config.h"
#include "common/model/model.h"

namespace outrider {

struct PassTimesOptions {
  int context = 0;  // tokens before the rows
  std::vector<int> rows;
  int threads = 2;
  int kv_bytes = 4;  // of an element of keys and values
  std::string kernel = "auto";
};

// The bar of each number of rows: a pass takes at most 1.25 times the longest of three: reading the
// weights once, reading keys and values once, and the arithmetic at the measured rate of the matrix
// products (of the model's for its weights, of f32 for attention).
Result<CheckOutcome> measure_passes(Model& model, const ModelConfig& config,
                                    const PassTimesOptions& options);

}  // namespace outrider
