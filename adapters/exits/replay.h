// Real passes of a target with a draft and exits, without a link. It records every exit's outcome
// and the verdict. It runs the product's own drafter, session, pass runner and probe, so it
// measures what a server would report to an edge, in the same arithmetic.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/engine/model/model.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {

// The outcome of one exit in one pass.
struct ExitSample {
  // For a row with a drafted token: that token's lead over the best other token, the edge's odds
  // for it (ExitProbe::TopPair), and which of the two the target chose.
  struct RowComparison {
    double lead = 0, odds = 0;
    bool drafted_right = false, other_right = false;
  };

  std::vector<RowComparison> comparisons = {};  // of the walk
  std::vector<RowEvidence> rows = {};           // of its walk
  std::vector<bool> row_right = {};             // whether its choice at that row is the target's
  double max_softmax = 0;                       // of the walk's last row
  bool right = false;                           // leaf and next token equal the verdict's
};

struct PassSample {
  std::vector<ExitSample> exits = {};  // as ExitHeads::layers()
  std::int32_t accepted = 0;           // drafted tokens that were accepted
};

// Where passes of several rows spent their time; prefills are left out.
struct ReplayTimes {
  // By exit, for each pass: the exit's time as a share of the pass's time without exits.
  std::vector<std::vector<double>> exit_shares = {};
};

struct ReplayOptions {
  int gamma = 4;  // drafted tokens a pass
  SamplingParams sampling = {};
  std::uint64_t seed = 1;
  Position max_tokens = 96;  // of an answer
};

class PassReplay final {
 public:
  // The references must outlive this object. The models share a vocabulary.
  PassReplay(Model& target, Model& draft, ExitHeads& heads, Clock& clock);

  // Answers a prompt; calls on_pass for each pass in order.
  Status run(std::span<const TokenId> prompt, const ReplayOptions& options,
             const std::function<void(PassSample)>& on_pass);

  const ReplayTimes& times() const { return times_; }

 private:
  class Answer;

  Model& target_;
  Model& draft_;
  ExitHeads& heads_;
  Clock& clock_;
  ReplayTimes times_;
};

}  // namespace outrider
