// What answers take by the latency law of the FSD paper: plain decoding beside rounds that are
// drafted on the edge and waited for.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "bench/cost/cell_cost.h"
#include "bench/cost/token_cost.h"
#include "common/model/emulated/pace.h"

namespace outrider {

struct ModelledRound {
  double input_tokens = 100;
  double output_tokens = 500;
  double tau = 2.5;
  double gamma = 4;
  double round_trip_ms = 0;
  // Both ways, of a round, and of a token of plain decoding, streamed: as the demo pair has them on
  // GSM8K's prompts, at γ = 4.
  double round_bytes = 141;
  double token_bytes = 62;
};

struct ModelledPair {
  double round_trip_ms = 0;
  AnswerShape shape = {};  // of the drafted answer
  AnswerUse plain = {}, edge = {};
  CellCost plain_cost = {}, edge_cost = {};

  // What a millisecond of round trip adds to a drafted token; nothing for what is not paid by time.
  std::optional<double> cost_of_a_round_trip_ms(CostKind kind, const Prices& prices) const;
};

// step_ms: T_p of one row. pass: T_q by rows.
ModelledPair modelled_pair(const ModelledRound& round, double step_ms, const PaceCurve& pass,
                           const Prices& prices);

}  // namespace outrider
