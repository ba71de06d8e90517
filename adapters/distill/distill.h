// The draft's loss: to guess what the target would say (Hinton et al. 2015; on the target's own
// text, after Agarwal et al. 2024).
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "adapters/train/trainer.h"

namespace outrider {

// Per learnt token: KL(target || draft) of the whole distribution, plus `greedy_weight` times the
// cross entropy with the target's likeliest token, which is what greedy verification compares.
at::Tensor distillation_loss(const Llama& draft, const Llama& target, const Batch& batch,
                             double greedy_weight);

}  // namespace outrider
