// SPDX-License-Identifier: Apache-2.0
#include "adapters/distill/distill.h"

#include "adapters/train/fused.h"

namespace outrider {

at::Tensor distillation_loss(const Llama& draft, const Llama& target, const Batch& batch,
                             double greedy_weight) {
  at::Tensor wanted;
  {
    at::NoGradGuard no_grad;
    wanted = target.logits(target.hidden(batch.ids, batch.starts).index_select(0, batch.places))
                 .to(at::kFloat);
  }
  const at::Tensor logits =
      draft.logits(draft.hidden(batch.ids, batch.starts).index_select(0, batch.places));
  at::Tensor divergence =
      at::kl_div(at::log_softmax(logits.to(at::kFloat), -1), at::log_softmax(wanted, -1),
                 at::Reduction::Sum, /*log_target=*/true) /
      static_cast<double>(wanted.size(0));
  if (greedy_weight == 0) return divergence;
  return divergence + fused_cross_entropy(logits, wanted.argmax(-1)) * greedy_weight;
}

}  // namespace outrider
