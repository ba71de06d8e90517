// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/token_cost.h"

namespace outrider {
namespace {

constexpr double kMillion = 1e6;
constexpr double kMsPerHour = 3.6e6;
constexpr double kMbBytes = 1e6;

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
  // The first pass reads the prompt; each later one what stands then, half of the answer on
  // average.
  const double prefix = shape.input_tokens + shape.output_tokens / 2;
  const double later = passes(shape) - 1;
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

OwnCost own_cost(const Prices& prices, const TokenUse& use) {
  OwnCost cost;
  if (prices.gpu_dollars_per_hour) {
    cost.gpu = kMillion * use.target_ms / kMsPerHour * *prices.gpu_dollars_per_hour;
  }
  cost.link = kMillion * use.bytes / kMbBytes * prices.link_dollars_per_mb;
  cost.device =
      kMillion * use.draft_ms / kMsPerHour * prices.device_watts / 1e3 * prices.dollars_per_kwh;
  return cost;
}

std::optional<double> break_even_tokens_per_pass(const TokenPrices& target, AnswerShape shape) {
  const double most = shape.drafted_per_pass + 1;
  const double plain = plain_cost(target, shape);
  const auto costs_more = [&](double tokens) {
    shape.tokens_per_pass = tokens;
    return edge_cost(target, shape).stateless > plain;
  };
  if (costs_more(most)) return std::nullopt;
  if (!costs_more(1)) return 1;
  double low = 1, high = most;  // it falls with the tokens of a pass
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (costs_more(middle) ? low : high) = middle;
  }
  return high;
}

std::optional<double> break_even_round_trip_ms(const AnswerShape& shape, double step_ms,
                                               double pass_ms, double plain_pass_ms) {
  const double left =
      shape.tokens_per_pass * plain_pass_ms - pass_ms - shape.drafted_per_pass * step_ms;
  if (left < 0) return std::nullopt;
  return left;
}

}  // namespace outrider
