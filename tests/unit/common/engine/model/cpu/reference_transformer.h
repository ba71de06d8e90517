// A decoder-only transformer in f64 with plain loops: the reference for the cpu backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "common/engine/model/format/model_files.h"

namespace outrider {

// Logits of every position of one text, [tokens, vocab].
std::vector<std::vector<double>> reference_logits(const ModelFiles& files,
                                                  const std::vector<TokenId>& tokens);

// Logits of a hidden state as if the model ended there, [vocab].
std::vector<double> logits_of_hidden(const ModelFiles& files, const std::vector<float>& hidden);

}  // namespace outrider
