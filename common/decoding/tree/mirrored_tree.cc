// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/tree/mirrored_tree.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

namespace outrider {
namespace {

// next_id: the first unused id; end: of the committed text. The number of nodes is not checked:
// nodes that are dead on arrival cost nothing, and the codec bounds a message.
Status check_grow(const Grow& grow, NodeId next_id, Position end) {
  if (grow.first_id != next_id) {
    return invalid_argument("Grow.first_id: " + std::to_string(grow.first_id) +
                            "; expected the next id, " + std::to_string(next_id));
  }
  if (grow.nodes.size() > std::numeric_limits<NodeId>::max() - grow.first_id) {
    return invalid_argument("Grow.first_id: this stream has no ids left; open a new one");
  }
  if (grow.anchor_position < 0) {
    return invalid_argument("Grow.anchor_position: " + std::to_string(grow.anchor_position) +
                            "; expected 0 to " + std::to_string(end));
  }
  if (grow.anchor_position > end) {
    return failed_precondition("Grow.anchor_position: " + std::to_string(grow.anchor_position) +
                               " lies beyond the committed text; its end is " +
                               std::to_string(end));
  }
  return {};
}

// Checks one node, which gets this id.
Status check_grow_node(const GrowNode& node, const ReceiveLimits& limits, NodeId id) {
  if (node.token < 0 || node.token >= limits.vocab_size) {
    return invalid_argument("Grow.tokens: " + std::to_string(node.token) + " at id " +
                            std::to_string(id) + "; expected 0 to " +
                            std::to_string(limits.vocab_size - 1));
  }
  if (node.parent >= id) {
    return invalid_argument(
        "Grow.parents: " + std::to_string(node.parent) + " at id " + std::to_string(id) +
        " names a node that was never sent; expected at most " + std::to_string(id - 1));
  }
  return {};
}

}  // namespace

MirroredTree::MirroredTree(std::vector<TokenId> text) : text_(std::move(text)) {}

const TreeNode& MirroredTree::node(NodeIndex node) const {
  return const_cast<MirroredTree*>(this)->at(node).node;
}

std::span<const NodeIndex> MirroredTree::children(NodeIndex parent) const {
  return const_cast<MirroredTree*>(this)->children_of(parent);
}

std::span<const DraftCandidate> MirroredTree::candidates(NodeIndex parent) const {
  return parent == kRoot ? root_candidates_ : node(parent).candidates;
}

NodeIndex MirroredTree::child(NodeIndex parent, TokenId token) const {
  for (const NodeIndex child : children(parent)) {
    if (node(child).token == token) return child;
  }
  return kNoNode;
}

bool MirroredTree::contains(NodeIndex node) const {
  return node >= 0 && static_cast<std::size_t>(node) < slots_.size() &&
         slots_[static_cast<std::size_t>(node)].used;
}

NodeIndex MirroredTree::add(NodeIndex parent, TokenId token) {
  if (const NodeIndex existing = child(parent, token); existing != kNoNode) return existing;
  NodeIndex added = 0;
  if (free_.empty()) {
    added = static_cast<NodeIndex>(slots_.size());
    slots_.emplace_back();
  } else {
    added = free_.back();
    free_.pop_back();
  }
  StorageSlot& slot = slots_[static_cast<std::size_t>(added)];
  slot.used = true;
  slot.node.token = token;
  slot.node.parent = parent;
  slot.node.position = parent == kRoot ? end() : node(parent).position + 1;
  children_of(parent).push_back(added);
  ++size_;
  return added;
}

void MirroredTree::set_confidence(NodeIndex node, float confidence) {
  at(node).node.confidence = confidence;
}

void MirroredTree::set_slot(NodeIndex node, std::int32_t slot) {
  at(node).node.slot = slot;
}

void MirroredTree::remove_unsent(NodeIndex node) {
  OUTRIDER_CHECK(at(node).node.id == 0);
  detach(node);
  drop(node);
}

void MirroredTree::remove_all_unsent() {
  std::vector<NodeIndex> tops;
  for (const NodeIndex index : nodes()) {
    const TreeNode& one = node(index);
    const bool under_unsent = one.parent != kRoot && node(one.parent).id == 0;
    if (one.id == 0 && !under_unsent) tops.push_back(index);
  }
  for (const NodeIndex index : tops) remove_unsent(index);
}

Grow MirroredTree::send(std::span<const NodeIndex> nodes) {
  Grow grow{.first_id = ids_.next_id(),
            .anchor_position = end(),
            .nodes = {},
            .candidates = candidates_beside(nodes)};
  grow.nodes.reserve(nodes.size());
  for (const NodeIndex index : nodes) {
    TreeNode& node = at(index).node;
    OUTRIDER_CHECK(node.id == 0);
    node.id = ids_.add(IdState::living(index));
    GrowNode sent{.token = node.token, .parent = 0, .confidence = confidence_byte(node.confidence)};
    if (node.parent != kRoot) {
      const NodeId parent_id = at(node.parent).node.id;
      OUTRIDER_CHECK(parent_id != 0);
      sent.parent = node.id - parent_id;
    }
    grow.nodes.push_back(sent);
  }
  return grow;
}

std::vector<CandidateSet> MirroredTree::candidates_beside(std::span<const NodeIndex> nodes) const {
  std::vector<CandidateSet> sets;
  std::vector<NodeIndex> parents;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeIndex parent = node(nodes[i]).parent;
    if (std::ranges::find(parents, parent) != parents.end()) continue;
    parents.push_back(parent);
    CandidateSet& set = sets.emplace_back(CandidateSet{.node = i, .candidates = {}});
    for (const NodeIndex one : children(parent)) {
      set.candidates.push_back({node(one).token, node(one).confidence});
    }
  }
  return sets;
}

Result<Received> MirroredTree::receive(const Grow& grow, const ReceiveLimits& limits) {
  OUTRIDER_RETURN_IF_ERROR(check_grow(grow, ids_.next_id(), end()));
  Received received;
  for (const GrowNode& node : grow.nodes) {
    const NodeId id = ids_.next_id();
    OUTRIDER_RETURN_IF_ERROR(check_grow_node(node, limits, id));
    // The anchor is the committed token before anchor_position.
    const IdState parent = node.parent == 0 ? IdState::committed(grow.anchor_position - 1)
                                            : ids_.state(id - node.parent);
    const IdState state = arrive(node, parent);
    ids_.add(state);
    if (state.kind == IdState::Kind::kLiving) {
      TreeNode& living = at(state.node).node;
      if (living.id == 0) living.id = id;
      ++received.living;
    }
    received.committed += state.kind == IdState::Kind::kCommitted ? 1 : 0;
    received.dead += state.kind == IdState::Kind::kDead ? 1 : 0;
    if (ids_.living().size() > limits.max_nodes) {
      return invalid_argument("Grow.tokens: node " + std::to_string(id) +
                              " would be living node number " +
                              std::to_string(ids_.living().size()) + "; expected at most " +
                              std::to_string(limits.max_nodes) + " (limits.max_nodes)");
    }
  }
  take_candidates(grow, limits.vocab_size);
  // An edge that repeats no node has at most one run per committed token; this bounds memory.
  constexpr std::size_t kRunsPerToken = 4;
  constexpr std::size_t kMoreRuns = 4096;
  if (ids_.runs() > kRunsPerToken * text_.size() + kMoreRuns) {
    return invalid_argument("Grow.tokens: committed tokens were sent again too often; " +
                            std::string("expected each node once"));
  }
  return received;
}

// A draft's vocabulary may be larger than the target's.
void MirroredTree::take_candidates(const Grow& grow, std::int32_t vocab_size) {
  for (const CandidateSet& set : grow.candidates) {
    const IdState state = ids_.state(grow.first_id + static_cast<NodeId>(set.node));
    if (state.kind != IdState::Kind::kLiving) continue;
    const NodeIndex parent = node(state.node).parent;
    std::vector<DraftCandidate>& known =
        parent == kRoot ? root_candidates_ : at(parent).node.candidates;
    known.clear();
    std::ranges::copy_if(set.candidates, std::back_inserter(known),
                         [&](const DraftCandidate& one) { return one.token < vocab_size; });
  }
}

IdState MirroredTree::arrive(const GrowNode& node, IdState parent) {
  if (parent.kind == IdState::Kind::kDead) return IdState::dead();
  NodeIndex under = parent.node;
  if (parent.kind == IdState::Kind::kCommitted) {
    const Position position = parent.position + 1;
    if (position < end()) {
      const bool agrees = text_[static_cast<std::size_t>(position)] == node.token;
      return agrees ? IdState::committed(position) : IdState::dead();
    }
    under = kRoot;
  }
  const NodeIndex living = add(under, node.token);
  TreeNode& added = at(living).node;
  if (added.id == 0) added.confidence = static_cast<float>(node.confidence) / 255.0f;
  return IdState::living(living);
}

std::vector<TreeNode> MirroredTree::commit(std::span<const TokenId> tokens) {
  // Walk as deep as nodes exist.
  std::vector<NodeIndex> path;
  NodeIndex leaf = kRoot;
  for (const TokenId token : tokens) {
    const NodeIndex next = child(leaf, token);
    if (next == kNoNode) break;
    path.push_back(leaf = next);
  }
  const bool inside = path.size() == tokens.size();  // the new root is a node, so a subtree stays

  // Cut the path out of the tree; the nodes beside it die.
  std::vector<NodeIndex> kept = inside ? children_of(leaf) : std::vector<NodeIndex>{};
  if (inside && leaf != kRoot) at(leaf).node.children.clear();
  if (!inside) root_candidates_.clear();
  if (inside && leaf != kRoot) root_candidates_ = std::exchange(at(leaf).node.candidates, {});
  std::vector<NodeIndex> doomed =
      inside && leaf == kRoot ? std::vector<NodeIndex>{} : std::exchange(root_children_, {});
  std::vector<TreeNode> walked;
  walked.reserve(path.size());
  for (const NodeIndex index : path) walked.push_back(node(index));
  for (const NodeIndex index : doomed) drop(index);
  for (const NodeIndex index : kept) at(index).node.parent = kRoot;
  root_children_ = std::move(kept);

  text_.insert(text_.end(), tokens.begin(), tokens.end());
  ids_.settle([&](NodeIndex index) {
    const auto step = std::find(path.begin(), path.end(), index);
    if (step != path.end()) {
      return IdState::committed(walked[static_cast<std::size_t>(step - path.begin())].position);
    }
    return contains(index) ? IdState::living(index) : IdState::dead();
  });
  return walked;
}

MirroredTree::StorageSlot& MirroredTree::at(NodeIndex node) {
  OUTRIDER_CHECK(contains(node));
  return slots_[static_cast<std::size_t>(node)];
}

std::vector<NodeIndex>& MirroredTree::children_of(NodeIndex parent) {
  return parent == kRoot ? root_children_ : at(parent).node.children;
}

void MirroredTree::detach(NodeIndex node) {
  std::erase(children_of(at(node).node.parent), node);
}

void MirroredTree::drop(NodeIndex node) {
  std::vector<NodeIndex> doomed{node};
  while (!doomed.empty()) {
    const NodeIndex index = doomed.back();
    doomed.pop_back();
    StorageSlot& slot = at(index);
    doomed.insert(doomed.end(), slot.node.children.begin(), slot.node.children.end());
    slot = StorageSlot{};
    free_.push_back(index);
    --size_;
  }
}

}  // namespace outrider
