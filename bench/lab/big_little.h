// The Big Little Decoder (Kim et al. 2023), BLD: lossy. The small model writes until it is unsure
// of a token (its fallback policy). The large one then reads what was written: a token stands if
// the large model finds it likely enough, not only if it would have chosen it (its rollback
// policy).
//
// Verification is equality here, so the target is made lenient instead: where it finds the drafted
// token likely enough, that token becomes its own choice.
//
// Thread rule: as model.h; the planner is pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/decoding/drafting/round_planner.h"
#include "common/decoding/drafting/trees/make_planner.h"
#include "common/engine/model/model.h"

namespace outrider {

// Our choice, as EdgeLLM and LLMCad print neither: the least confidence of a token that the small
// model writes itself, and the most that a token of its may surprise the large one, in nats.
inline constexpr double kBldFallback = 0.5;
inline constexpr double kBldRollback = 3.0;

// -log p(token) by these logits, at a temperature of 1.
double surprise_of(std::span<const float> logits, std::size_t token);

// Rouge-L, how alike a lossy text is: F1 of the longest common subsequence (Lin 2004), here of
// tokens. 0 to 1.
double rouge_l(std::span<const TokenId> text, std::span<const TokenId> reference);

// The target for chains at temperature 0: a row that is followed by a drafted one whose token costs
// it at most `surprise` nats chooses that token. Its text is another than the target's.
class LenientTarget final : public Model {
 public:
  // model outlives it.
  LenientTarget(Model& model, double surprise) : model_(model), surprise_(surprise) {}

  const ModelInfo& info() const override { return model_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  Model& model_;
  const double surprise_;
};

// A chain that ends before the first token of less confidence.
class SureChain final : public RoundPlanner {
 public:
  SureChain(double least, std::size_t most) : least_(least), most_(most) {}

  int fan_out() const override { return 1; }
  RoundPlan plan(const PlanView& view) override;

 private:
  const double least_;
  const std::size_t most_;
};

// "bld". Valid as long as the program runs.
const GuestTree& sure_chain();

}  // namespace outrider
