// The quality of a trained model: loss and exact answers on held-out text.
//
// Thread rule: one thread; libtorch uses its pool. Errors of libtorch are exceptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "adapters/data/corpus.h"
#include "adapters/train/llama.h"
#include "adapters/train/run_files.h"

namespace outrider {

// documents: `learnt` marks the tokens that count. Longer documents are cut off at the model's
// context.
HeldOutResult evaluate(const Llama& model, const std::vector<Document>& documents);

}  // namespace outrider
