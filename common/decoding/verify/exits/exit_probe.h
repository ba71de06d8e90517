// Reads a pass's early exits as it goes on: hidden states, through the exit's head, to the outcome
// that the exit would give if it were the target, by the same law of choice along the same nodes.
// All riders that want exits share one product with each exit's head; the others cost nothing.
//
//   (begin watch* forward(tap = this))*
//
// Thread rule: the compute thread. Ownership: heads outlive it; sessions and plans outlive the
// pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/decoding/exits/exit_heads.h"
#include "common/decoding/verify/exits/exit_reports.h"
#include "common/decoding/verify/exits/watched_rows.h"
#include "common/decoding/verify/session/session.h"

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

  // For a pass of a target whose vocabulary has `vocab` tokens.
  void begin(std::int32_t vocab);
  // A rider of that pass, which `session` has started with `plan`. first_row: of its rows, among
  // all that want logits; riders come in the order of their rows.
  void watch(const VerifySession& session, const PassPlan& plan, std::size_t first_row, Sink sink);
  bool watches_anybody() const { return !watched_.empty(); }
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

  struct Watched {
    const VerifySession* session = nullptr;
    const PassPlan* plan = nullptr;
    RowRange rows = {};  // of rows_of_pass_
    Sink sink;

    const Open& opened() const { return session->opened(); }
  };

  void find(std::size_t exit, const Watched& rider);
  DraftedComparison compare_drafted(const std::vector<Candidate>& ranked, const PassPlan& plan,
                                    std::size_t row, const DraftPrior& prior) const;
  TokenId choose_in_row(std::size_t exit, const Watched& rider, std::size_t row, Position position);
  double score(std::size_t exit, const Watched& rider) const;
  DraftPrior prior(std::size_t exit, const Watched& rider) const;
  std::span<const float> logits(std::size_t exit, const Watched& rider, std::size_t row) const;

  ExitHeads& heads_;
  const ExitScore score_;
  Observer observer_;

  // The pass at hand.
  std::size_t vocab_ = 0;
  std::vector<Watched> watched_;
  WatchedRows rows_of_pass_;
  std::vector<std::vector<float>> logits_;  // by exit: [rows_of_pass_, vocab]
  std::vector<std::size_t> num_seen_;       // by exit: so many of rows_of_pass_
  std::vector<TopPair> top_pairs_;          // of the walk at hand
  std::vector<RowEvidence> rows_;           // of the walk at hand
  std::vector<float> adjusted_;             // reused from row to row
};

}  // namespace outrider
