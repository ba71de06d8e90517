// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/exactness/exact_variants.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

namespace outrider {
namespace {

bool streamed(const EdgeAnswer& answer) {
  return answer.record.streamed && answer.record.streamed->bytes_read > 0;
}

// A verdict found the next round complete or still being drafted. A round's beginning alone does
// not count: it can be a branch that the verdict left, with nothing drafted meanwhile.
bool drafted_provisionally(const EdgeAnswer& answer) {
  const PredraftStats& found = answer.record.stats.predraft;
  return found.hits + found.late_hits > 0;
}

bool pruned(const EdgeAnswer& answer) {
  return answer.record.stats.rows_pruned > 0;
}

bool server_draft_stood(const EdgeAnswer& answer) {
  return answer.record.stats.num_server_tokens > 0;
}

// A branch other than the likeliest was accepted. Otherwise chains would have done as well.
bool other_branch_stood(const EdgeAnswer& answer) {
  return std::ranges::any_of(answer.record.stats.accepted_per_branch, [](const Counts& branches) {
    return std::ranges::any_of(branches | std::views::drop(1),
                               [](auto count) { return count > 0; });
  });
}

std::string provisional_flag(bool provisional) {
  return std::string("--provisional=") + (provisional ? "true" : "false");
}

enum class VerifierKind : std::uint8_t { kRemote, kResident, kFlash };

// The variants of one kind of verifier; names and features mention the kind.
class VerifierVariants final {
 public:
  VerifierVariants(VerifierKind kind, std::vector<std::string> edge_flags)
      : kind_(kind), edge_flags_(std::move(edge_flags)) {}

  void add(GridVariant grid, std::vector<ExactFeature> features = {}) {
    if (kind_ != VerifierKind::kRemote) grid.name = name() + " " + grid.name;
    grid.edge_flags.insert(grid.edge_flags.end(), edge_flags_.begin(), edge_flags_.end());
    if (kind_ == VerifierKind::kFlash)
      features.push_back({"streamed by \"" + grid.name + "\"", streamed});
    variants_.push_back({std::move(grid), std::move(features)});
  }

  void add_queues(const ExactWish& wish, const StrategyChoice& strategy) {
    for (const QueueOrder queue : wish.queues) {
      for (const int workers : wish.workers) {
        add(queue_variant(strategy, queue, wish.server_queues.front(), workers));
      }
      for (const ReportQueue server : wish.server_queues | std::views::drop(1)) {
        add(queue_variant(strategy, queue, server, wish.workers.back()));
      }
    }
  }

  // Rounds of several chains; the verdict follows one of them.
  void add_branches(const StrategyChoice& strategy, int branches) {
    GridVariant variant = variant_of(strategy);
    variant.name += fmt::format(" {} branches", branches);
    variant.edge_flags = {fmt::format("--draft-branches={}", branches)};
    add(std::move(variant), {of_here("a second branch stood", other_branch_stood)});
  }

  // The same, with and without drafting while a verdict is awaited.
  void add_branches_of_chains(int branches) {
    for (const bool provisional : {false, true}) {
      GridVariant variant = variant_of(Strategy::kSd);
      variant.name += fmt::format(" {} branches", branches) + (provisional ? " provisional" : "");
      variant.edge_flags = {fmt::format("--draft-branches={}", branches), "--tree=chain",
                            provisional_flag(provisional)};
      std::vector<ExactFeature> features = {of_here("a second branch stood", other_branch_stood)};
      if (provisional) features.push_back(provisional_feature());
      add(std::move(variant), std::move(features));
    }
  }

  // Rounds that are trees. With pruning, branches end in the middle of passes, on the server or on
  // the edge.
  void add_tree(const TreeChoice& kind, double prune_below) {
    for (const bool provisional : {false, true}) {
      GridVariant variant = variant_of(Strategy::kSd);
      variant.name += std::string(" tree ") + name_of(kind) + (provisional ? " provisional" : "");
      variant.edge_flags = {std::string("--tree=") + name_of(kind), provisional_flag(provisional)};
      std::vector<ExactFeature> features;
      if (provisional) features.push_back(provisional_feature());
      if (kind != TreeKind::kChain) {
        features.push_back(of_here("a tree's second branch stood", other_branch_stood));
      }
      add(variant, features);
      if (prune_below <= 0) continue;
      variant.name += " pruned";
      (kind_ == VerifierKind::kRemote ? variant.server_flags : variant.edge_flags)
          .push_back(fmt::format("--prune={}", prune_below));
      if (kind != TreeKind::kChain) {
        features.push_back(of_here(
            provisional ? "provisional trees were pruned" : "trees that wait were pruned", pruned));
      }
      add(std::move(variant), std::move(features));
    }
  }

  // Its server drafts too, by look-up alone and with a model; then the edge looks up as well.
  void add_server_drafts(const StrategyChoice& strategy, const std::string& draft) {
    GridVariant variant = variant_of(strategy);
    const std::string own_name = variant.name;
    variant.name = own_name + " server look-up";
    variant.server_flags = {"--draft-source=lookup"};
    add(variant, {of_here("the server's look-up stood", server_draft_stood)});
    variant.name = own_name + " server drafts";
    variant.server_flags = {"--draft-source=both", "--draft-model=" + draft};
    add(variant, {of_here("the server's draft stood", server_draft_stood)});
    if (strategy == Strategy::kAr) return;
    variant.name = own_name + " look-up on both sides";
    variant.edge_flags = {"--draft-source=both"};
    add(variant,
        {of_here("the server's draft stood beside the edge's look-up", server_draft_stood)});
  }

  std::vector<ExactVariant> take() { return std::move(variants_); }

 private:
  std::string name() const {
    if (kind_ == VerifierKind::kRemote) return "remote";
    return kind_ == VerifierKind::kResident ? "resident" : "flash";
  }
  ExactFeature of_here(const std::string& what, bool (*occurred)(const EdgeAnswer&)) const {
    return {what + " (" + name() + ")", occurred};
  }
  ExactFeature provisional_feature() const {
    return of_here("drafted provisionally", drafted_provisionally);
  }

  static GridVariant queue_variant(const StrategyChoice& strategy, QueueOrder client,
                                   ReportQueue server, int workers) {
    const std::string client_name = name_of(client), server_name = name_of(server);
    GridVariant variant = variant_of(strategy);
    variant.name += " " + client_name + "/" + server_name + " " + std::to_string(workers);
    variant.edge_flags = {"--client-queue=" + client_name,
                          "--predraft-workers=" + std::to_string(workers)};
    variant.server_queue = server;
    return variant;
  }

  const VerifierKind kind_;
  const std::vector<std::string> edge_flags_;
  std::vector<ExactVariant> variants_;
};

// The first server queue is combined with every client queue and number of workers; the others with
// every client queue and the last number. The two queues do not know each other's order.
std::vector<ExactVariant> remote_variants(const ExactWish& wish) {
  VerifierVariants variants(VerifierKind::kRemote, {});
  for (const StrategyChoice& strategy : wish.strategies) {
    const bool has_rounds = strategy == Strategy::kSd || strategy == Strategy::kFsd;
    if (has_rounds && wish.branches > 1) variants.add_branches(strategy, wish.branches);
    if (strategy == Strategy::kAr || strategy == Strategy::kSd) {
      variants.add(variant_of(strategy));
    } else {
      variants.add_queues(wish, strategy);
    }
  }
  for (const TreeChoice& kind : wish.trees) variants.add_tree(kind, wish.prune_below);
  if (!wish.server_draft.empty()) {
    for (const Strategy strategy : {Strategy::kAr, Strategy::kSd, Strategy::kMirror}) {
      variants.add_server_drafts(strategy, wish.server_draft);
    }
  }
  return variants.take();
}

// Edges that decide alone: their flags without a draft and with one.
struct OfflineFlags {
  std::vector<std::string> plain, drafting;
};

std::vector<ExactVariant> offline_variants(const ExactWish& wish, VerifierKind kind,
                                           const OfflineFlags& flags) {
  VerifierVariants plain(kind, flags.plain), drafting(kind, flags.drafting);
  plain.add(variant_of(Strategy::kAr));
  drafting.add(variant_of(Strategy::kSd));
  drafting.add(variant_of(Strategy::kMirror));
  if (wish.branches > 1) drafting.add_branches_of_chains(wish.branches);
  for (const TreeChoice& kind_of_tree : wish.trees) {
    drafting.add_tree(kind_of_tree, wish.prune_below);
  }
  std::vector<ExactVariant> all = plain.take();
  std::ranges::move(drafting.take(), std::back_inserter(all));
  return all;
}

OfflineFlags streamed(const ExactWish& wish) {
  const auto with = [&](const std::string& budget) {
    std::vector<std::string> flags = {"--target=" + wish.pack, "--mode=offline"};
    if (!budget.empty()) flags.push_back("--memory-budget=" + budget);
    return flags;
  };
  const bool same = wish.plain_memory_budget.empty();
  return {with(same ? wish.memory_budget : wish.plain_memory_budget), with(wish.memory_budget)};
}

}  // namespace

std::vector<ExactVariant> exact_variants(const ExactWish& wish, const std::string& target,
                                         const std::string& dtype) {
  std::vector<ExactVariant> all;
  const auto add = [&all](std::vector<ExactVariant> some) {
    std::ranges::move(some, std::back_inserter(all));
  };
  if (wish.remote) add(remote_variants(wish));
  if (wish.resident) {
    const std::vector<std::string> flags = {"--target=" + target, "--dtype=" + dtype,
                                            "--mode=offline"};
    add(offline_variants(wish, VerifierKind::kResident, {flags, flags}));
  }
  if (!wish.pack.empty()) add(offline_variants(wish, VerifierKind::kFlash, streamed(wish)));
  return all;
}

std::vector<std::string> missing_features(const std::vector<ExactVariant>& variants,
                                          const std::vector<FinishedAnswer>& answers) {
  std::map<std::string, bool> occurred;
  for (const ExactVariant& variant : variants) {
    for (const ExactFeature& feature : variant.features) occurred[feature.name];
  }
  for (const FinishedAnswer& answer : answers) {
    if (answer.failed()) continue;
    for (const ExactFeature& feature : variants.at(answer.job.variant).features) {
      occurred[feature.name] |= feature.occurred(answer.answer);
    }
  }
  std::vector<std::string> missing;
  for (const auto& [name, happened] : occurred) {
    if (!happened) missing.push_back(name);
  }
  return missing;
}

}  // namespace outrider
