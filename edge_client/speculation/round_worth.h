// How often rounds are accepted, and what they are worth at the current time per token
// (docs/latency-law.md).
//
// Thread rule: pure. Ownership: RoundWorth is a view; what is passed to it outlives it. Units:
// seconds. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/decoding/drafting/hypothesis_tree.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

// The chance that the first k tokens of a drafted chain are accepted, learnt from verdicts.
class AcceptanceByDepth final {
 public:
  static constexpr std::size_t kMaxDepth = 64;

  // A pass verified a chain of `length` nodes and accepted the first `accepted` of them.
  void record(std::size_t length, std::size_t accepted);
  // a_k; a_0 = 1.
  double of(std::size_t k) const;

  // How often a drafted token was verified at each depth, and how often it was accepted; older ones
  // count less. As deep as was tried.
  std::vector<double> tried() const;
  std::vector<double> stood() const;
  // Continues where another one ended. Both have the same size, at most kMaxDepth.
  void restore(std::span<const double> tried, std::span<const double> stood);

 private:
  std::size_t depth() const;

  std::array<double, kMaxDepth> tried_{};
  std::array<double, kMaxDepth> stood_{};
};

// The saving of a round's drafted part when its verdict came, as a share of what the whole round
// would save, 0 .. 1: the draft steps that the verifier, which waits for `wait_for` of them, was
// spared, and the round trip if the round had been sent. If the verifier does not wait, any part
// counts as the whole.
double share_of_hit(const CacheLookup& found, const Timings& timings, int wait_for);

class RoundWorth final {
 public:
  // exits: whether early exits look at the passes. theta: the time per token.
  RoundWorth(const AcceptanceByDepth& acceptance, const Timings& timings, bool exits, double theta)
      : acceptance_(acceptance), timings_(timings), exits_(exits), theta_(theta) {}

  // The chance with which all of a round must be accepted for its last token to be worth its row.
  double least_chance() const;
  // The same where the pass waits while the token is drafted.
  double least_chance_in_turn() const;
  // Drafted tokens that are worth their rows on average: from 1 to `most`.
  int best_length(int most) const;
  // How many of `length` tokens the verifier should wait for after a miss; 0: it continues alone.
  int best_wait(int length) const;
  // The saving of a round that is there in time: the wait for one, or the time of its tokens if the
  // verifier does not wait.
  double of_hit(int length, int wait_for) const;
  // Why an answer should begin without a draft; empty: it should not. A link may hold many passes.
  // A round drafted now then follows as many tokens, all of which must have been guessed. If that
  // hardly ever happens and waiting does not pay either, a trial would only lose time.
  std::string why_hopeless(int length) const;

 private:
  // How much longer a pass of `rows` rows takes than one of a single row.
  double added_time(int rows) const;

  const AcceptanceByDepth& acceptance_;
  const Timings& timings_;
  const bool exits_;
  const double theta_;
};

}  // namespace outrider
