// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/exit_probe.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/engine/sampling/noise.h"

namespace outrider {
namespace {

// -log of the greatest probability of a row's softmax. What is less likely by e^20 adds nothing.
float spread_of(std::span<const float> logits) {
  const float largest = max_logit(logits);
  double sum = 0;
  for (const float logit : logits) {
    if (logit - largest > -20.0f) sum += std::exp(double{logit} - largest);
  }
  return std::clamp(static_cast<float>(std::log(sum)), 0.0f, kMaxMargin);
}

// Candidates of a row that are looked at: a drafted token beyond these will not be chosen.
constexpr int kRanked = 8;

float clamp_margin(float margin) {
  return std::clamp(margin, -kMaxMargin, kMaxMargin);
}

const PassPlan::NodeRow* node_below(const PassPlan& plan, std::size_t row, TokenId token) {
  const auto found = std::ranges::find_if(plan.nodes, [&](const PassPlan::NodeRow& node) {
    return row_after(node.parent) == row && node.token == token;
  });
  return found == plan.nodes.end() ? nullptr : &*found;
}

// The edge's greatest confidence in a node below the row; nothing if there is none.
std::optional<float> surest_below(const PassPlan& plan, std::size_t row) {
  std::optional<float> best;
  for (const PassPlan::NodeRow& node : plan.nodes) {
    if (row_after(node.parent) != row) continue;
    best = std::max(best.value_or(0), node.confidence);
  }
  return best;
}

}  // namespace

void ExitProbe::begin(std::int32_t vocab) {
  vocab_ = static_cast<std::size_t>(vocab);
  watched_.clear();
  rows_of_pass_.clear();
  logits_.resize(heads_.layers().size());
  num_seen_.assign(heads_.layers().size(), 0);
}

void ExitProbe::watch(const VerifySession& session, const PassPlan& plan, std::size_t first_row,
                      Sink sink) {
  const RowRange rows{rows_of_pass_.size(), 1 + plan.nodes.size()};
  for (std::size_t row = 0; row < rows.count; ++row) rows_of_pass_.add(first_row + row);
  watched_.push_back({&session, &plan, rows, std::move(sink)});
}

bool ExitProbe::wants(std::int32_t layer) const {
  const auto layers = heads_.layers();
  return watches_anybody() && std::binary_search(layers.begin(), layers.end(), layer);
}

void ExitProbe::on_layer(const HiddenRows& rows) {
  const auto layers = heads_.layers();
  const auto exit = static_cast<std::size_t>(
      std::lower_bound(layers.begin(), layers.end(), rows.layer) - layers.begin());
  const HiddenRows seen = rows_of_pass_.of(rows);
  // Parts of a pass come in order, but those that would be late do not come.
  if (seen.count == 0 || seen.first != num_seen_[exit]) return;
  num_seen_[exit] += seen.count;
  std::vector<float>& logits = logits_[exit];
  logits.resize(rows_of_pass_.size() * vocab_);
  heads_.compute(exit, seen, std::span(logits).subspan(seen.first * vocab_, seen.count * vocab_));
  // Whose last row is there has all.
  for (const Watched& rider : watched_) {
    const std::size_t last = rider.rows.end() - 1;
    if (seen.first <= last && last < seen.first + seen.count) find(exit, rider);
  }
}

std::span<const float> ExitProbe::logits(std::size_t exit, const Watched& rider,
                                         std::size_t row) const {
  return std::span(logits_[exit]).subspan((rider.rows.first + row) * vocab_, vocab_);
}

// The paper's exits are taken as they are.
DraftPrior ExitProbe::prior(std::size_t exit, const Watched& rider) const {
  if (score_ == ExitScore::kMaxSoftmax) return {};
  return heads_.prior(exit, rider.opened().sampling.temperature);
}

// Compares, among a row's likeliest tokens, the best that is drafted, with its prior, with the best
// that is not.
ExitProbe::DraftedComparison ExitProbe::compare_drafted(const std::vector<Candidate>& ranked,
                                                        const PassPlan& plan, std::size_t row,
                                                        const DraftPrior& prior) const {
  const float worst = ranked.empty() ? 0 : ranked.front().score - kMaxMargin;
  Candidate drafted{0, worst}, other{0, worst}, next{0, worst};  // next: the second best other
  DraftedComparison comparison;
  float worth = worst;                                          // of the drafted, with its prior
  for (auto at = ranked.rbegin(); at != ranked.rend(); ++at) {  // the best comes last
    const PassPlan::NodeRow* node = node_below(plan, row, at->token);
    if (node == nullptr) {
      next = std::exchange(other, *at);
      continue;
    }
    const float odds = log_odds(node->confidence);
    if (comparison.top_pair.drafted_any && at->score + prior.at(odds) < worth) continue;
    worth = at->score + prior.at(odds);
    drafted = *at;
    comparison.top_pair = {.drafted_any = true, .drafted = at->token, .odds = odds};
  }
  comparison.top_pair.other = other.token;
  comparison.top_pair.lead = clamp_margin(drafted.score - other.score);
  comparison.margin = clamp_margin(worth - other.score);
  comparison.rest = clamp_margin(other.score - next.score);
  return comparison;
}

// By the law of choice, except for the prior. Keeps what the choice rests on.
TokenId ExitProbe::choose_in_row(std::size_t exit, const Watched& rider, std::size_t row,
                                 Position position) {
  const Open& open = rider.opened();
  const std::optional<float> surest = surest_below(*rider.plan, row);
  const std::span<const float> adjusted = rider.session->adjuster().adjust(
      logits(exit, rider, row), path_to(*rider.plan, row), adjusted_);
  const std::vector<Candidate> ranked =
      rank(adjusted, open.sampling, open.seed, position, surest ? kRanked : 2);
  const DraftedComparison comparison =
      compare_drafted(ranked, *rider.plan, row, prior(exit, rider));
  const TopPair& top_pair = top_pairs_.emplace_back(comparison.top_pair);
  RowEvidence& evidence = rows_.emplace_back();
  evidence.spread = spread_of(adjusted);
  evidence.odds = surest ? log_odds(*surest) : 0;
  if (top_pair.drafted_any && comparison.margin >= 0) {
    evidence.kind = RowKind::kDrafted;
    evidence.margin = comparison.margin;
    return top_pair.drafted;
  }
  evidence.kind = surest ? RowKind::kCorrected : RowKind::kBeyond;
  evidence.margin =
      top_pair.drafted_any ? std::min(comparison.rest, -comparison.margin) : comparison.rest;
  return top_pair.other;
}

void ExitProbe::find(std::size_t exit, const Watched& rider) {
  rows_.clear();
  top_pairs_.clear();
  const PassPlan& plan = *rider.plan;
  PassWalk walk = rider.session->walk(plan, [&](std::size_t row, Position position) {
    return choose_in_row(exit, rider, row, position);
  });
  // The edge knows the last node that it sent, and is given the tokens behind it.
  std::vector<TokenId> path(walk.tokens.begin(), walk.tokens.end() - 1);
  std::int32_t known = walk.leaf;
  std::size_t behind = 0;
  while (known >= 0 && plan.nodes[static_cast<std::size_t>(known)].id == 0) {
    known = plan.nodes[static_cast<std::size_t>(known)].parent;
    ++behind;
  }
  path.erase(path.begin(), path.end() - static_cast<std::ptrdiff_t>(behind));
  const ExitGuess guess{.exit = static_cast<std::int32_t>(exit),
                        .layer = heads_.layers()[exit],
                        .leaf_id = known < 0 ? 0 : plan.nodes[static_cast<std::size_t>(known)].id,
                        .next_token = walk.tokens.back(),
                        .confidence = score(exit, rider),
                        .path = std::move(path),
                        .outcome = walk.tokens};
  if (observer_) {
    observer_({exit, std::move(walk), rows_, top_pairs_});
  }
  if (rider.sink && behind <= kMaxReportPath) rider.sink(guess);
}

double ExitProbe::score(std::size_t exit, const Watched& rider) const {
  if (score_ == ExitScore::kMaxSoftmax) {
    const auto sharpest = std::ranges::min_element(rows_, {}, &RowEvidence::spread);
    return std::exp(-double{sharpest->spread});
  }
  return heads_.confidence(exit, rider.opened().sampling.temperature, rows_);
}

}  // namespace outrider
