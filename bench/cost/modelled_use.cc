// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/modelled_use.h"

#include <cmath>

namespace outrider {

std::optional<double> ModelledPair::cost_of_a_round_trip_ms(CostKind kind,
                                                            const Prices& prices) const {
  AnswerUse longer = edge;
  longer.decode_ms += edge.rounds;  // a millisecond each
  const auto more = cell_cost(prices, DraftPlace::kEdge, longer).total(kind);
  const auto now = edge_cost.total(kind);
  if (!more || !now || *more <= *now) return std::nullopt;
  return *more - *now;
}

ModelledPair modelled_pair(const ModelledRound& round, double step_ms, const PaceCurve& pass,
                           const Prices& prices) {
  const double tokens = round.output_tokens, passes = tokens / round.tau;
  const double pass_ms = pass.ms(static_cast<std::int64_t>(std::ceil(round.gamma)) + 1);
  const double drafting = round.gamma * step_ms;
  ModelledPair pair{.round_trip_ms = round.round_trip_ms};
  pair.shape = {.input_tokens = round.input_tokens,
                .output_tokens = tokens,
                .tokens_per_pass = round.tau,
                .drafted_per_pass = round.gamma};
  pair.plain = {.input_tokens = round.input_tokens,
                .output_tokens = tokens,
                .passes = tokens,
                .decode_ms = tokens * pass.ms(1),
                .target_ms = tokens * pass.ms(1),
                .bytes = tokens * round.token_bytes};
  pair.edge = {.input_tokens = round.input_tokens,
               .output_tokens = tokens,
               .passes = passes,
               .rounds = passes,
               .drafted = passes * round.gamma,
               .decode_ms = passes * (round.round_trip_ms + drafting + pass_ms),
               .target_ms = passes * pass_ms,
               .draft_ms = passes * drafting,
               .bytes = passes * round.round_bytes};
  pair.plain_cost = cell_cost(prices, DraftPlace::kEdge, pair.plain);
  pair.edge_cost = cell_cost(prices, DraftPlace::kEdge, pair.edge);
  return pair;
}

}  // namespace outrider
