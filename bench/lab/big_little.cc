// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/big_little.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace outrider {
namespace {

constexpr std::size_t kMaxDrafted = 16;

}  // namespace

double surprise_of(std::span<const float> logits, std::size_t token) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - most);
  return std::log(sum) + most - double{logits[token]};
}

double rouge_l(std::span<const TokenId> text, std::span<const TokenId> reference) {
  if (text.empty() || reference.empty()) return text.size() == reference.size() ? 1 : 0;
  std::vector<std::size_t> row(reference.size() + 1, 0);
  for (const TokenId one : text) {
    std::size_t before = 0;
    for (std::size_t j = 0; j < reference.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = one == reference[j] ? before + 1 : std::max(above, row[j]);
      before = above;
    }
  }
  return 2 * static_cast<double>(row.back()) / static_cast<double>(text.size() + reference.size());
}

Status LenientTarget::forward(std::span<const Row> rows, PassOutput& out) {
  OUTRIDER_RETURN_IF_ERROR(model_.forward(rows, out));
  const auto vocab = static_cast<std::size_t>(out.vocab_size);
  std::size_t place = 0;  // of the row's logits
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    if (!rows[i].wants_logits) continue;
    const auto logits = std::span(out.logits).subspan(place++ * vocab, vocab);
    const Row& next = rows[i + 1];
    if (next.cache != rows[i].cache || next.cache->slots().parent(next.slot) != rows[i].slot) {
      continue;
    }
    const auto token = static_cast<std::size_t>(next.token);
    if (surprise_of(logits, token) > surprise_) continue;
    logits[token] = *std::ranges::max_element(logits) + 1;
  }
  return {};
}

RoundPlan SureChain::plan(const PlanView& view) {
  RoundPlan plan;
  const std::size_t most = std::min(most_, view.limits().max_nodes);
  for (NodeIndex at = kRoot; plan.nodes.size() < most;) {
    if (!view.is_expanded(at)) {
      if (view.can_expand(at)) plan.expand.push_back(at);
      break;
    }
    const std::vector<NodeIndex> candidates = view.candidates(at);
    if (candidates.empty() || view.confidence(candidates.front()) < least_) break;
    at = candidates.front();
    plan.nodes.push_back(at);
  }
  return plan;
}

const GuestTree& sure_chain() {
  static const GuestTree chain{"bld", [](std::size_t size) {
                                 return std::make_unique<SureChain>(kBldFallback,
                                                                    size > 0 ? size : kMaxDrafted);
                               }};
  return chain;
}

}  // namespace outrider
