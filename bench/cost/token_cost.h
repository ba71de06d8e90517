// What a million answered tokens cost at an API, by two ways of billing.
//
//   by the pass   FSD's table 1: the prefix once, and one output token for each pass
//   stateless     as APIs bill that keep no session: at each round the whole prefix (as cached
//                 input) and the drafted tokens are input once more, and one token is output; what
//                 the target writes alone goes on with the stream
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/prices/prices.h"

namespace outrider {

// One answer.
struct AnswerShape {
  double input_tokens = 100;
  double output_tokens = 500;
  double tokens_per_pass = 1;   // τ
  double drafted_per_pass = 0;  // γ
  double rounds_per_pass = 1;   // the share of the passes that verify drafted tokens
};

// Dollars per million output tokens. Each is linear in the passes, but for the pass that reads the
// prompt.
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

}  // namespace outrider
