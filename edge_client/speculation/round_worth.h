// What rounds are worth at the present time per token (docs/latency-law.md), in seconds.
//
// Thread rule: pure; a view of what is passed to it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/drafting/cache_lookup.h"
#include "edge_client/speculation/acceptance_by_depth.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

// How much of what a whole round saves the part of it does that was drafted when its verdict came,
// 0 .. 1: the steps that it spares a verifier that waits for so many, and the round trip if it had
// left. Where nobody waits, whatever is there brings its tokens.
double share_of_hit(const CacheLookup& found, const Timings& timings, int wait_for);

class RoundWorth final {
 public:
  // exits: whether early exits look at the passes. theta: the time per token. The others outlive
  // this.
  RoundWorth(const AcceptanceByDepth& acceptance, const Timings& timings, bool exits, double theta)
      : acceptance_(acceptance), timings_(timings), exits_(exits), theta_(theta) {}

  // With which chance all of a round must stand for its last token to be worth its row.
  double least_chance() const;
  // Drafted tokens that are worth their rows on average, at most so many and at least 1.
  int best_length(int most) const;
  // For how many of `length` the verifier should wait after a miss; 0: it goes on alone.
  int best_wait(int length) const;
  // What a round that is there in time wins: the wait for one, or if nobody waits, the tokens that
  // it brings.
  double of_hit(int length, int wait_for) const;
  // Why an answer should begin without a draft; empty: it should not. A link may hold many passes:
  // what is drafted now comes to stand behind as many tokens, all of which must have been foreseen.
  // Where that hardly ever happens and waiting does not pay either, there is no need to lose time
  // to find out.
  std::string why_hopeless(int length) const;

 private:
  // What a pass of `rows` rows takes longer than one of a single row.
  double added_time(int rows) const;

  const AcceptanceByDepth& acceptance_;
  const Timings& timings_;
  const bool exits_;
  const double theta_;
};

}  // namespace outrider
