// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/rivals.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "common/decoding/drafting/growth_policy.h"
#include "edge_client/speculation/strategies.h"

namespace outrider {
namespace {

// SSD. The paper's budgets are 20 to 30 on a GPU of its own; a row of an edge's draft costs more.
constexpr int kOutcomes = 16;
constexpr int kWidestFanOut = 6;          // beyond it next tokens are too unlikely for a row
constexpr double kMissExponent = 1;       // r: that the next token is missed falls as F^-r
constexpr double kFirstAcceptance = 0.7;  // before anything is measured
constexpr double kKeepAcceptance = 0.98;  // of older tokens' weight: about fifty count

// PicoSpec. Rounds that may be drafted beyond those in flight: chains longer than that hardly ever
// stand.
constexpr std::size_t kMaxRoundsAhead = 4;

bool on_best_chain(const MirroredTree& tree, NodeIndex from, NodeIndex node) {
  for (; node != from; node = tree.node(node).parent) {
    if (likeliest_child(tree, tree.node(node).parent) != node) return false;
  }
  return true;
}

bool has_child_in_flight(const GrowthView& view, NodeIndex parent) {
  return std::ranges::any_of(view.tree.children(parent),
                             [&](NodeIndex child) { return view.note(child).in_flight; });
}

}  // namespace

double NextGuessPolicy::worth(const GrowthView& view, NodeIndex node) const {
  if (hypothesis_of(view, node).rows > ahead_) return 0;
  if (!on_best_chain(view.tree, kRoot, node)) return 0;
  return 1.0 / depth_of(view.tree, node);
}

std::unique_ptr<GrowthPolicy> SpecEdgeStrategy::grow_ahead(const Timings& /*timings*/) const {
  return std::make_unique<NextGuessPolicy>(static_cast<int>(round_.length));
}

std::vector<int> geometric_fan_out(double acceptance, int gamma, int budget) {
  const double a = std::clamp(acceptance, 0.05, 0.95);
  const auto positions = static_cast<std::size_t>(gamma) + 1;
  std::vector<double> shares(positions);
  for (std::size_t k = 0; k < positions; ++k) {
    shares[k] = std::pow(a, static_cast<double>(k) / (1 + kMissExponent));
  }
  shares.back() *= std::pow(1 - a, -1 / (1 + kMissExponent));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int> counts(positions);
  for (std::size_t k = 0; k < positions; ++k) {
    shares[k] *= budget / sum;
    counts[k] = std::min(static_cast<int>(shares[k]), kWidestFanOut);
    shares[k] -= counts[k];
  }
  for (int left = budget - std::accumulate(counts.begin(), counts.end(), 0); left > 0; --left) {
    const auto largest = std::ranges::max_element(shares);
    const auto k = static_cast<std::size_t>(largest - shares.begin());
    if (counts[k] < kWidestFanOut) ++counts[k];
    *largest -= 1;
  }
  return counts;
}

OutcomeFanOutPolicy::OutcomeFanOutPolicy(int gamma, std::vector<int> fan_out)
    : gamma_(gamma),
      fan_out_(std::move(fan_out)),
      // The token in flight is no outcome, and takes one of the guesses.
      widest_(std::ranges::max(fan_out_) + 1) {}

// After k accepted tokens: one of the likeliest next ones, that in flight left out.
bool OutcomeFanOutPolicy::expects(const GrowthView& view, NodeIndex outcome) const {
  const NodeIndex parent = view.tree.node(outcome).parent;
  const auto accepted = static_cast<std::size_t>(depth_of(view.tree, outcome) - 1);
  if (accepted >= fan_out_.size()) return false;
  const int better = has_child_in_flight(view, parent) ? 1 : 0;
  return view.note(outcome).rank - better < fan_out_[accepted];
}

// The row that guesses what follows a whole round goes first, then all rounds token by token, the
// likelier outcome before the others.
double OutcomeFanOutPolicy::worth(const GrowthView& view, NodeIndex node) const {
  const Hypothesis at = hypothesis_of(view, node);
  if (at.rows == 0) return 4;
  if (at.rows > gamma_ || !expects(view, at.outcome)) return 0;
  if (!on_best_chain(view.tree, at.outcome, node)) return 0;
  return 1 + 1.0 / at.rows + 0.1 * view.weight(at.outcome);
}

SsdStrategy::SsdStrategy(const RoundShape& round) : round_(round), acceptance_(kKeepAcceptance) {
  acceptance_.add(kFirstAcceptance);
}

std::vector<int> SsdStrategy::fan_out() const {
  return geometric_fan_out(acceptance_.mean(), static_cast<int>(round_.length), kOutcomes);
}

std::unique_ptr<GrowthPolicy> SsdStrategy::grow_round(const RoundShape& round) const {
  return std::make_unique<RoundPolicy>(round, std::ranges::max(fan_out()) + 1);
}

std::unique_ptr<GrowthPolicy> SsdStrategy::grow_ahead(const Timings& /*timings*/) const {
  return std::make_unique<OutcomeFanOutPolicy>(static_cast<int>(round_.length), fan_out());
}

std::optional<PlanChange> SsdStrategy::on_verdict(const VerdictReview& review,
                                                  const Timings& /*timings*/) {
  if (review.depth == 0) return std::nullopt;
  for (std::size_t i = 1; i < review.tokens; ++i) acceptance_.add(1);
  if (review.tokens <= review.depth) acceptance_.add(0);
  return std::nullopt;
}

Policy PicoSpecStrategy::pass_policy() const {
  return {.pass_policy = PassPolicy::kOnRequest,
          .row_limit = static_cast<std::uint32_t>(round_.length)};
}

std::size_t PicoSpecStrategy::rows_ahead(const Timings& timings) const {
  const Duration pass = timings.pass_of(round_.length + 1, false);
  const auto on_the_way =
      pass > Duration{0} ? static_cast<std::size_t>(timings.round_trip() / pass) : 0;
  return round_.length * std::min(1 + on_the_way, kMaxRoundsAhead);
}

std::unique_ptr<GrowthPolicy> PicoSpecStrategy::grow_ahead(const Timings& timings) const {
  return std::make_unique<NextGuessPolicy>(static_cast<int>(rows_ahead(timings)));
}

std::optional<AheadSelection> PicoSpecStrategy::select_ahead(const SendingView& view,
                                                             const Timings& timings) const {
  return AheadSelection{.limits = {.whole = round_.length,
                                   .least = round_.length,
                                   .due = false,
                                   .room = view.room,
                                   .link_room = view.link_room,
                                   .min_chance = 0},
                        .round = {.most = rows_ahead(timings)}};
}

namespace {

template <typename Rival>
std::unique_ptr<SpeculationStrategy> make_rival(const SpeculationOptions& options) {
  return std::make_unique<Rival>(round_of(options));
}

const GuestStrategy kStrategies[] = {{"specedge", make_rival<SpecEdgeStrategy>},
                                     {"ssd", make_rival<SsdStrategy>},
                                     {"picospec", make_rival<PicoSpecStrategy>}};

}  // namespace

std::span<const GuestStrategy> rival_strategies() {
  return kStrategies;
}

const GuestStrategy* find_rival(std::string_view name) {
  const auto* const found = std::ranges::find(kStrategies, name, &GuestStrategy::name);
  return found == std::end(kStrategies) ? nullptr : found;
}

}  // namespace outrider
