// Real passes of a target with a draft and exits, without a link: what every exit said, and what
// the verdict was. The product's own drafter, session, pass runner and probe run here, so what is
// measured is what a server would say to an edge, in its own arithmetic.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/exits/exit_heads.h"
#include "common/model/model.h"
#include "common/sampling/sampling.h"

namespace outrider {

// What one exit said in one pass.
struct ExitSample {
  // Of a row with a drafted token in it: that token's lead over the best other and the edge's odds
  // for it (ExitProbe::TopPair), and which of the two the target chose.
  struct RowComparison {
    double lead = 0, odds = 0;
    bool drafted_right = false, other_right = false;
  };

  std::vector<RowComparison> comparisons = {};  // of the walk
  std::vector<RowEvidence> rows = {};           // of its walk
  std::vector<bool> row_right = {};             // its choice at that row is the target's
  double max_softmax = 0;                       // of the walk's last row
  bool right = false;                           // leaf and next token are the verdict's
};

struct PassSample {
  std::vector<ExitSample> exits = {};  // as ExitHeads::layers()
  std::int32_t accepted = 0;           // drafted tokens that stood
};

// Where the time of passes of several rows went; prefills are left out.
struct ReplayTimes {
  // By exit, of each pass: its time as a share of the pass's without exits.
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
  // All outlive this. The models share a vocabulary.
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
