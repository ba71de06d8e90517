// Reads a pass's early exits as it goes on: hidden states, through the exit's head, to the outcome
// that the exit would give if it were the target, by the same law of choice along the same nodes.
//
//   (begin forward(tap = this))*
//
// Thread rule: the compute thread. Ownership: heads outlive it; session and plan outlive the pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/exits/exit_heads.h"
#include "common/verify/exit_reports.h"
#include "common/verify/session.h"

namespace outrider {

class ExitProbe final : public LayerTap {
 public:
  using Sink = std::function<void(const ExitGuess&)>;
  // The likeliest drafted token of a row against the likeliest other one.
  struct TopPair {
    bool drafted_any = false;  // false: none is among the likely tokens; what follows says nothing
    TokenId drafted = 0, other = 0;
    float lead = 0;  // of the drafted one's perturbed score; within +-kMaxMargin
    float odds = 0;  // log_odds() of the drafted one's confidence
  };
  // All that a guess rests on: for calibration and measurements.
  struct Finding {
    std::size_t exit = 0;
    PassWalk walk = {};
    std::span<const RowEvidence> rows = {};  // of the walk
    std::span<const TopPair> top_pair = {};  // of the walk, row by row
  };
  using Observer = std::function<void(const Finding&)>;

  ExitProbe(ExitHeads& heads, ExitScore score) : heads_(heads), score_(score) {}

  // For the pass that `session` has started with `plan`, whose vocabulary has `vocab` tokens.
  void begin(const VerifySession& session, const PassPlan& plan, std::int32_t vocab, Sink sink);
  // Called with each finding before its guess.
  void observe(Observer observer) { observer_ = std::move(observer); }

  bool wants(std::int32_t layer) const override;
  void on_layer(const HiddenRows& rows) override;

 private:
  struct DraftedComparison {
    TopPair top_pair = {};
    float margin = 0;  // of the drafted token with its prior over the other
    float rest = 0;    // of the other over the best of the rest
  };

  void find(std::size_t exit);
  DraftedComparison compare_drafted(const std::vector<Candidate>& ranked, std::size_t row,
                                    const DraftPrior& prior) const;
  TokenId choose_in_row(std::size_t exit, std::size_t row, Position position);
  double score(std::size_t exit) const;
  DraftPrior prior(std::size_t exit) const;
  std::span<const float> logits(std::size_t exit, std::size_t row) const;

  ExitHeads& heads_;
  const ExitScore score_;
  Sink sink_;
  Observer observer_;

  // The pass at hand.
  const VerifySession* session_ = nullptr;
  const PassPlan* plan_ = nullptr;
  std::size_t vocab_ = 0;
  std::vector<std::vector<float>> logits_;  // by exit: [rows that want logits, vocab]
  std::vector<TopPair> top_pairs_;          // of the walk at hand
  std::vector<RowEvidence> rows_;           // of the walk at hand
};

}  // namespace outrider
