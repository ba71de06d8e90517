// SPDX-License-Identifier: Apache-2.0
#include "bench/edges/adversary.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace outrider {
namespace {

constexpr std::uint64_t kMaxExtraNodes = 12;
constexpr NodeId kHowFarBack = 40;  // how many ids back an extra node's parent may be

}  // namespace

Adversary::Adversary(AdversaryScript script, SeededRandom& random, Send send)
    : script_(std::move(script)),
      random_(random),
      send_(std::move(send)),
      tree_(script_.open.prefix) {}

void Adversary::open_stream(std::string replaced_session) {
  const auto text = tree_.text();
  Open open = script_.open;
  open.prefix.assign(text.begin(), text.end());
  open.replaced_session = std::move(replaced_session);
  tree_ = MirroredTree(open.prefix);
  limits_ = {};
  asked_.clear();
  ever_eager_ = ever_wanted_exits_ = false;
  set_policy(open.policy);
  reports_seen_ = acked_reports_ = 0;
  send(std::move(open));
}

void Adversary::set_policy(const Policy& policy) {
  policy_ = policy;
  ever_eager_ |= policy.pass_policy == PassPolicy::kEager;
  ever_wanted_exits_ |= policy.wants_exits;
}

void Adversary::take(const ServerMessage& message) {
  if (const auto* opened = std::get_if<Opened>(&message)) limits_ = opened->limits;
  if (const auto* report = std::get_if<ExitReport>(&message)) reports_seen_ = report->seq;
  if (const auto* verdict = std::get_if<Verdict>(&message)) tree_.commit(verdict->tokens);
}

// --- sending ------------------------------------------------------------------------------------

void Adversary::send(EdgeMessage::Body body) {
  acked_ = tree_.end();
  if (random_.chance(0.7)) acked_reports_ = reports_seen_;
  send_({.acked_position = acked_, .acked_reports = acked_reports_, .body = std::move(body)});
}

void Adversary::cancel() {
  cancelled_ = true;
  send(Cancel{});
}

// Nodes are numbered as in an honest edge's tree.
void Adversary::send_own(const std::vector<NodeIndex>& nodes) {
  if (nodes.empty()) asked_.insert(tree_.end());
  Grow grow = tree_.send(nodes);
  if (on_grow) on_grow(tree_.text(), grow);
  send(std::move(grow));
}

// Any nodes, within the peer's limit of living nodes as far as this side can know.
void Adversary::send_raw(Grow grow) {
  const std::size_t living = tree_.ids().living().size();
  const std::size_t room = limits_.max_nodes - std::min<std::size_t>(limits_.max_nodes, living);
  if (grow.nodes.size() > room) grow.nodes.resize(room);
  if (grow.nodes.empty()) asked_.insert(tree_.end());
  if (on_grow) on_grow(tree_.text(), grow);
  const Result<Received> received =
      tree_.receive(grow, {.vocab_size = script_.vocab_size, .max_nodes = limits_.max_nodes});
  OUTRIDER_CHECK(received.ok());
  send(std::move(grow));
}

void Adversary::send_round(int chain_length) {
  Grow grow{tree_.ids().next_id(), tree_.end(), {}};
  for (int i = 0; i < chain_length; ++i) {
    grow.nodes.push_back({guess_at(tree_.end() + i), i == 0 ? 0u : 1u, 128});
  }
  add_extras(grow);
  send_raw(std::move(grow));
}

void Adversary::send_strays() {
  Grow grow{tree_.ids().next_id(), random_.between(0, tree_.end()), {}};
  grow.nodes.push_back({random_token(), 0, 1});
  add_extras(grow);
  send_raw(std::move(grow));
}

void Adversary::add_extras(Grow& grow) {
  for (std::uint64_t left = random_.below(kMaxExtraNodes); left > 0; --left) {
    const NodeId own = grow.first_id + static_cast<NodeId>(grow.nodes.size());
    const auto parent = static_cast<NodeId>(random_.below(std::min(own, kHowFarBack)));
    const bool repeats = !grow.nodes.empty() && random_.below(3) == 0;
    const TokenId token = repeats ? grow.nodes[random_.below(grow.nodes.size())].token
                                  : guess_at(tree_.end() + random_.between(0, 7));
    grow.nodes.push_back({token, parent, static_cast<std::uint8_t>(random_.below(256))});
  }
}

void Adversary::send_policy() {
  Policy policy;
  policy.pass_policy = random_.chance(0.5) ? PassPolicy::kEager : PassPolicy::kOnRequest;
  policy.patience = random_.between(Duration{0}, from_ms(30));
  policy.row_limit = static_cast<std::uint32_t>(random_.below(6));
  policy.wants_exits = random_.chance(0.5);
  set_policy(policy);
  send(policy_);
  keep_alive();
}

void Adversary::keep_alive() {
  if (cancelled_) return;
  const auto run_ahead = static_cast<Position>(limits_.run_ahead);
  if (policy_.pass_policy == PassPolicy::kOnRequest && tree_.ids().living().empty()) {
    send_own({});
  } else if (tree_.end() - acked_ >= std::max<Position>(1, run_ahead / 2)) {
    acknowledge();
  }
}

// --- guessing -----------------------------------------------------------------------------------

TokenId Adversary::random_token() {
  return static_cast<TokenId>(random_.below(static_cast<std::uint64_t>(script_.vocab_size)));
}

// Mostly the target's choice there, else any token.
TokenId Adversary::guess_at(Position position) {
  const auto index = static_cast<std::size_t>(position);
  const bool known = index < script_.expected.size();
  return known && random_.chance(script_.guess_right) ? script_.expected[index] : random_token();
}

// Mostly the target's choice if the path is the target's, else any token.
TokenId Adversary::guess_after(NodeIndex parent) {
  std::vector<TokenId> path;
  for (NodeIndex node = parent; node != kRoot; node = tree_.node(node).parent) {
    path.push_back(tree_.node(node).token);
  }
  const auto end = static_cast<std::size_t>(tree_.end());
  const bool right = end + path.size() < script_.expected.size() &&
                     std::equal(path.rbegin(), path.rend(),
                                script_.expected.begin() + static_cast<std::ptrdiff_t>(end));
  return right ? guess_at(static_cast<Position>(end + path.size())) : random_token();
}

void Adversary::grow_guesses() {
  for (std::uint64_t left = random_.below(6); left > 0; --left) {
    std::vector<NodeIndex> parents{kRoot};
    std::ranges::copy(tree_.nodes(), std::back_inserter(parents));
    // The newest nodes are the deepest: this favours chains.
    const std::size_t pick =
        random_.chance(0.6) ? parents.size() - 1 : random_.below(parents.size());
    const NodeIndex parent = parents[pick];
    const NodeIndex node = tree_.add(parent, guess_after(parent));
    if (tree_.node(node).id == 0) {
      tree_.set_confidence(node, static_cast<float>(random_.below(256)) / 255.0f);
    }
    if (tree_.node(node).id == 0 && random_.chance(0.05)) tree_.remove_unsent(node);
  }
}

// Parents first, within the limit of living nodes.
void Adversary::send_guesses() {
  std::vector<NodeIndex> chosen;
  std::vector<NodeIndex> ready{kRoot};
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const std::size_t swap = i + random_.below(ready.size() - i);
    std::swap(ready[i], ready[swap]);
    const NodeIndex node = ready[i];
    if (node != kRoot && tree_.node(node).id == 0) {
      if (tree_.ids().living().size() + chosen.size() >= limits_.max_nodes) break;
      if (random_.chance(0.3)) continue;
      chosen.push_back(node);
    }
    for (const NodeIndex child : tree_.children(node)) ready.push_back(child);
  }
  if (!chosen.empty()) send_own(chosen);
}

}  // namespace outrider
