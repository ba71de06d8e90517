// SPDX-License-Identifier: Apache-2.0
#include "common/verify/exit_probe.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/sampling/noise.h"

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

bool has_node(const PassPlan& plan, std::size_t row, TokenId token) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(), [&](const PassPlan::NodeRow& node) {
    return static_cast<std::size_t>(node.parent + 1) == row && node.token == token;
  });
}

bool has_nodes(const PassPlan& plan, std::size_t row) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(), [&](const PassPlan::NodeRow& node) {
    return static_cast<std::size_t>(node.parent + 1) == row;
  });
}

}  // namespace

void ExitProbe::begin(const VerifySession& session, const PassPlan& plan, std::int32_t vocab,
                      Sink sink) {
  session_ = &session;
  plan_ = &plan;
  vocab_ = static_cast<std::size_t>(vocab);
  sink_ = std::move(sink);
  logits_.resize(heads_.layers().size());
}

bool ExitProbe::wants(std::int32_t layer) const {
  const auto layers = heads_.layers();
  return std::binary_search(layers.begin(), layers.end(), layer);
}

void ExitProbe::on_layer(const HiddenRows& rows) {
  const auto layers = heads_.layers();
  const auto exit = static_cast<std::size_t>(
      std::lower_bound(layers.begin(), layers.end(), rows.layer) - layers.begin());
  const std::size_t all = 1 + plan_->nodes.size();
  std::vector<float>& logits = logits_[exit];
  logits.resize(all * vocab_);
  heads_.compute(exit, rows, std::span(logits).subspan(rows.first * vocab_, rows.count * vocab_));
  if (rows.first + rows.count == all) find(exit);
}

std::span<const float> ExitProbe::logits(std::size_t exit, std::size_t row) const {
  return std::span(logits_[exit]).subspan(row * vocab_, vocab_);
}

// What a drafted token counts for more than its score. The paper's exits are taken as they are.
float ExitProbe::prior(std::size_t exit) const {
  if (score_ == ExitScore::kMaxSoftmax) return 0;
  return static_cast<float>(heads_.prior(exit, session_->opened().sampling.temperature));
}

// By the law of choice, but for the prior. Keeps what the choice rests on.
TokenId ExitProbe::choose_in_row(std::size_t exit, std::size_t row, Position position) {
  const Open& open = session_->opened();
  const bool nodes = has_nodes(*plan_, row);
  const std::vector<Candidate> ranked =
      rank(logits(exit, row), open.sampling, open.seed, position, nodes ? kRanked : 2);
  const float spread = spread_of(logits(exit, row));
  const float worst = ranked.empty() ? 0 : ranked.front().score - kMaxMargin;
  Candidate drafted{0, worst}, other{0, worst}, next{0, worst};  // next: the second best other
  for (auto at = ranked.rbegin(); at != ranked.rend(); ++at) {   // the best comes last
    if (nodes && has_node(*plan_, row, at->token)) {
      drafted = *at;
    } else {
      next = std::exchange(other, *at);
    }
  }
  const float lead = clamp_margin(drafted.score - other.score);
  rivals_.push_back({nodes, drafted.token, other.token, lead});
  const float with_prior = clamp_margin(lead + prior(exit));
  if (nodes && with_prior > 0) {
    rows_.push_back({RowKind::kDrafted, with_prior, spread});
    return drafted.token;
  }
  const float rest = clamp_margin(other.score - next.score);
  rows_.push_back({nodes ? RowKind::kCorrected : RowKind::kBeyond,
                   nodes ? std::min(rest, -with_prior) : rest, spread});
  return other.token;
}

void ExitProbe::find(std::size_t exit) {
  rows_.clear();
  rivals_.clear();
  PassWalk walk = session_->walk(*plan_, [&](std::size_t row, Position position) {
    return choose_in_row(exit, row, position);
  });
  const NodeId leaf = walk.leaf < 0 ? 0 : plan_->nodes[static_cast<std::size_t>(walk.leaf)].id;
  const ExitGuess guess{.exit = static_cast<std::int32_t>(exit),
                        .leaf_id = leaf,
                        .next_token = walk.tokens.back(),
                        .confidence = score(exit)};
  if (observer_) {
    observer_({exit, std::move(walk), rows_, rivals_});
  }
  if (sink_) sink_(guess);
}

double ExitProbe::score(std::size_t exit) const {
  if (score_ == ExitScore::kMaxSoftmax) return std::exp(-rows_.back().spread);
  return heads_.confidence(exit, session_->opened().sampling.temperature, rows_);
}

}  // namespace outrider
