// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/token_cost.h"

#include <algorithm>

namespace outrider {
namespace {

// Prices are dollars per million tokens, so a sum of price x tokens of one answer, divided by its
// output tokens, is dollars per million output tokens.
double per_output(double sum, const AnswerShape& shape) {
  return sum / shape.output_tokens;
}

double passes(const AnswerShape& shape) {
  return shape.output_tokens / shape.tokens_per_pass;
}

}  // namespace

double plain_cost(const TokenPrices& target, const AnswerShape& shape) {
  return per_output(target.input * shape.input_tokens + target.output * shape.output_tokens, shape);
}

ApiCost edge_cost(const TokenPrices& target, const AnswerShape& shape) {
  const double outputs = target.output * passes(shape);
  ApiCost cost;
  cost.by_the_pass = per_output(target.input * shape.input_tokens + outputs, shape);
  // The first pass reads the prompt; each later round what stands then, half of the answer on
  // average.
  const double prefix = shape.input_tokens + shape.output_tokens / 2;
  const double later = std::max(passes(shape) * shape.rounds_per_pass - 1, 0.0);
  const double inputs = target.input * shape.input_tokens + later * target.cached_input * prefix +
                        passes(shape) * target.input * shape.drafted_per_pass;
  cost.stateless = per_output(inputs + outputs, shape);
  return cost;
}

double cloud_draft_cost(const TokenPrices& target, const TokenPrices& draft,
                        const AnswerShape& shape) {
  const double drafted = passes(shape) * shape.drafted_per_pass;
  return edge_cost(target, shape).by_the_pass +
         per_output(draft.input * shape.input_tokens + draft.output * drafted, shape);
}

}  // namespace outrider
