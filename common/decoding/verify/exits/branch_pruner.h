// Ends branches of a verifying pass in its middle, where an early exit gives them little chance
// (LEVER, section 4.3; docs/pruning.md).
//
// The predictor is one of the target's exits. At every row that something was drafted below it
// scores candidates against each other (eq. 11): what was drafted, and shadow tokens beside that.
// Where the edge is in this process, the shadows are what its draft guessed and did not send, and
// only the candidates' rows of the exit's output matrix are read (eq. 7). Over a wire nobody
// knows them, and the exit's own likeliest tokens serve. Scores are the law of choice's perturbed
// ones (so the noise is the target's), with the exit's calibrated prior for what the draft guessed.
// Half way the exit often knows less than the draft, so an edge's chance weighs both, as
// verdicts show that they deserve (EdgeChance).
// Pruning may cost a pass accepted tokens, but never makes one inexact: a branch that is ended by
// mistake ends the walk at its parent, whose own choice stands.
//
//   (begin watch* forward(pruner = this) learn*)*
//
// Thread rule: the compute thread. Ownership: heads outlive it; opens and plans outlive the pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/decoding/exits/exit_heads.h"
#include "common/decoding/exits/online_logistic.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/verify/exits/watched_rows.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/session/pass_plan.h"
#include "common/engine/model/model.h"

namespace outrider {

struct BranchNode {
  std::int32_t parent = -1;  // an earlier index; -1: the root
  double score = 0;          // that the target chooses it after its parent, 0 .. 1 (EdgeChance)
};

// By node: 1 if it goes on. A node's chance is the product of the scores on its path (kEdges: the
// least of them); it ends if that is below `threshold`, so that what follows an ended node ends
// too. Three rules keep more: the backbone, i.e. the best child of the best child and so on from
// the root; the root's best two children; and everything, if less than a quarter of the nodes or of
// the leaves would be left.
std::vector<std::uint8_t> keep_branches(std::span<const BranchNode> nodes, double threshold,
                                        PruneRule rule = PruneRule::kBranches);

// The chance that the target chooses a drafted token after its parent, from what two witnesses say:
//
//   chance = logistic(offset + a * log_odds(score) + b * log_odds(confidence))
//
// score: the exit's, of eq. 11. confidence: the draft's. Both weigh the same until verdicts say
// otherwise.
class EdgeChance final {
 public:
  // The offset and the factors a and b, which say what was learnt.
  using Weights = std::array<double, 3>;
  // Weights beyond these bounds are clamped to them.
  static constexpr Weights kLowest = {-8, 0, 0}, kHighest = {8, 4, 4};

  EdgeChance();
  explicit EdgeChance(const Weights& weights);

  const Weights& weights() const { return logistic_.weights(); }

  double at(double score, float confidence) const {
    return logistic_.chance(evidence(score, confidence));
  }
  void learn(double score, float confidence, bool chosen) {
    logistic_.learn(evidence(score, confidence), chosen);
  }

 private:
  static std::array<double, 3> evidence(double score, float confidence);

  OnlineLogistic<3> logistic_;
};

class BranchPruner final : public RowPruner {
 public:
  // threshold: of a branch's chance, 0 .. 1. It looks at the exit nearest to the middle of
  // `num_layers`, be it one that reports or the heads' own for pruning. temperature: tau_E of
  // eq. 11, above 0; perturbed scores have the target's own.
  BranchPruner(ExitHeads& heads, double threshold, std::int32_t num_layers,
               PruneRule rule = PruneRule::kBranches, double temperature = 1);

  // For a pass of a target whose vocabulary has `vocab` tokens.
  void begin(std::int32_t vocab);
  // A rider of that pass; a plan without branches is left alone. first_row: of its rows, among all
  // that want logits; riders come in the order of their rows. tenant: whose it is; what an edge is
  // worth is learnt from its tenant's alone, so that nobody's drafts end another's branches.
  void watch(const Open& open, const std::string& tenant, const PassPlan& plan,
             std::size_t first_row);

  bool wants(std::int32_t layer) const override;
  void prune(const HiddenRows& rows, std::span<std::uint8_t> keep) override;

  // A watched rider's verdict. chosen: what its walk chose behind a row, in Chooser's numbering;
  // nothing where the walk did not come.
  void learn(const PassPlan& plan, std::size_t first_row,
             const std::function<std::optional<TokenId>(std::size_t row)>& chosen);

  const PruneCounts& counts() const { return counts_; }

  // Sets the weights that new tenants begin with, as earlier processes learnt them.
  void begin_with(const EdgeChance::Weights& weights) { beginning_ = EdgeChance(weights); }
  // The weights that this tenant's verdicts led to; nothing: none came.
  std::optional<EdgeChance::Weights> learnt(const std::string& tenant) const;

 private:
  // A token that is compared with the others at a row.
  struct Contender {
    TokenId token = 0;
    std::int32_t node = -1;                // of the plan; -1: a shadow
    std::optional<float> confidence = {};  // the draft's; nothing: it did not guess the token
    std::optional<double> score = {};      // the exit's; nothing: the pass did not come to it
  };
  // A row that has children.
  struct Parent {
    std::size_t row = 0;    // in Chooser's numbering
    Position position = 0;  // of what it decides
    std::vector<Contender> contenders = {};
  };
  // A rider with branches.
  struct Branches {
    const Open* open = nullptr;
    EdgeChance* chance = nullptr;
    std::size_t first_row = 0;
    std::vector<BranchNode> nodes = {};  // by node of the plan
    std::vector<Parent> parents = {};    // by row
  };

  void score_candidates(const HiddenRows& parents);
  void score_all(const HiddenRows& parents);
  void score_parent(Branches& branches, Parent& parent, std::span<const float> logits) const;

  ExitHeads& heads_;
  const double threshold_;
  const PruneRule rule_;
  const double temperature_;
  EdgeChance beginning_;
  std::map<std::string, EdgeChance> chances_;  // by tenant
  std::size_t exit_ = 0;
  std::int32_t layer_ = 0;  // its

  // The pass at hand.
  std::size_t vocab_ = 0;
  std::vector<Branches> branches_;
  WatchedRows parents_;            // of all branches
  bool knows_candidates_ = false;  // of every parent
  std::vector<float> logits_;      // [parents_, vocab], or of the contenders alone
  PruneCounts counts_;
};

}  // namespace outrider
