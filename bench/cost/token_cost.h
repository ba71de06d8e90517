// What a million answered tokens cost, by three ways of billing, and where drafting on the edge
// stops paying.
//
//   by the pass   FSD's table 1: the prefix once, and one output token for each pass
//   stateless     as APIs bill that keep no session: at each pass the whole prefix (as cached
//   input)
//                 and the drafted tokens are input once more, and one token is output
//   own server    the target's computing time at the price of a GPU hour
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "common/prices/prices.h"

namespace outrider {

// One answer.
struct AnswerShape {
  double input_tokens = 100;
  double output_tokens = 500;
  double tokens_per_pass = 1;   // τ
  double drafted_per_pass = 0;  // γ
};

// Dollars per million output tokens.
struct ApiCost {
  double by_the_pass = 0;
  double stateless = 0;
};

// The target decodes alone, in one request.
double plain_cost(const TokenPrices& target, const AnswerShape& shape);
// The draft on the edge.
ApiCost edge_cost(const TokenPrices& target, const AnswerShape& shape);
// The draft in the cloud, billed for its tokens; the target by the pass.
double cloud_draft_cost(const TokenPrices& target, const TokenPrices& draft,
                        const AnswerShape& shape);

// What one token takes beside the API.
struct TokenUse {
  double target_ms = 0;  // of the target's computing
  double draft_ms = 0;   // of the device's
  double bytes = 0;      // both ways
};

// Dollars per million output tokens.
struct OwnCost {
  std::optional<double> gpu;  // nothing without a price
  double link = 0;
  double device = 0;
};
OwnCost own_cost(const Prices& prices, const TokenUse& use);

// The fewest tokens a pass must bring so that stateless billing costs no more than plain decoding;
// nothing where not even all drafted tokens and the target's own do.
std::optional<double> break_even_tokens_per_pass(const TokenPrices& target, AnswerShape shape);

// The longest round trip at which waiting rounds (T_p drafting γ tokens, T_q passes) are as fast as
// plain decoding of T_1 a token; nothing where they are slower without any link.
std::optional<double> break_even_round_trip_ms(const AnswerShape& shape, double step_ms,
                                               double pass_ms, double plain_pass_ms);

}  // namespace outrider
