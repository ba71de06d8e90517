// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/memory/kv_prefixes.h"

#include <algorithm>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr std::size_t kFull = KvPages::kRows;

// How many tokens both begin with.
std::size_t common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

}  // namespace

KvPrefixes::~KvPrefixes() {
  for (const Node& node : nodes_) pages_.give_back(node.page_);
}

std::vector<KvPrefixes::Node*>& KvPrefixes::children(const std::string& root, Node* above) {
  return above != nullptr ? above->children_ : roots_[root];
}

// Those above come after it: a page never goes before what hangs under it.
void KvPrefixes::touch(Node* node, TimePoint now) {
  for (; node != nullptr; node = node->above_) {
    node->used_ = now;
    nodes_.splice(nodes_.end(), nodes_, node->self_);
  }
}

KvPrefixes::Found KvPrefixes::find(const std::string& root, std::span<const TokenId> text,
                                   TimePoint now) {
  Found found;
  Node* deepest = nullptr;
  const auto at = roots_.find(root);
  const std::vector<Node*>* below = at != roots_.end() ? &at->second : nullptr;
  while (below != nullptr && !text.empty()) {
    Node* best = nullptr;
    std::size_t longest = 0;
    for (Node* const child : *below) {
      const std::size_t length = common_length(text, child->tokens_);
      if (length > longest) {
        longest = length;
        best = child;
      }
    }
    below = nullptr;
    if (best == nullptr) break;
    deepest = best;
    found.pages.push_back(best->page_);
    found.length += static_cast<Position>(longest);
    text = text.subspan(longest);
    if (longest < kFull) break;
    found.full = best;
    below = &best->children_;
  }
  touch(deepest, now);
  return found;
}

KvPrefixes::Node* KvPrefixes::add(const std::string& root, Node* above,
                                  std::span<const TokenId> tokens, KvPage page, std::int32_t owner,
                                  TimePoint now) {
  OUTRIDER_CHECK(!tokens.empty() && tokens.size() <= kFull);
  OUTRIDER_CHECK(above == nullptr || above->tokens_.size() == kFull);
  std::vector<Node*>& siblings = children(root, above);
  for (Node* const sibling : siblings) {
    if (common_length(tokens, sibling->tokens_) < tokens.size()) continue;
    touch(sibling, now);
    return sibling->tokens_.size() == tokens.size() ? sibling : nullptr;
  }
  // The beginning of this one is not needed any more.
  const auto shorter = std::ranges::find_if(siblings, [&](const Node* sibling) {
    return common_length(tokens, sibling->tokens_) == sibling->tokens_.size() && may_drop(*sibling);
  });
  if (shorter != siblings.end()) drop((*shorter)->self_);
  pages_.share(page);
  nodes_.emplace_back();
  Node& node = nodes_.back();
  node.root_ = root;
  node.above_ = above;
  node.tokens_.assign(tokens.begin(), tokens.end());
  node.page_ = page;
  node.owner_ = owner;
  node.self_ = std::prev(nodes_.end());
  children(root, above).push_back(&node);
  touch(&node, now);
  return &node;
}

bool KvPrefixes::may_drop(const Node& node) const {
  return node.children_.empty() && pages_.holders(node.page_) == 1;
}

bool KvPrefixes::drop_one(std::optional<std::int32_t> of) {
  const auto at = std::ranges::find_if(
      nodes_, [&](const Node& node) { return may_drop(node) && (!of || node.owner_ == *of); });
  if (at == nodes_.end()) return false;
  drop(at);
  return true;
}

void KvPrefixes::drop_unused_since(TimePoint time, TimePoint now) {
  while (!nodes_.empty() && nodes_.front().used_ <= time) {
    if (may_drop(nodes_.front())) {
      drop(nodes_.begin());
    } else {
      nodes_.front().used_ = now;
      nodes_.splice(nodes_.end(), nodes_, nodes_.begin());
    }
  }
}

std::int32_t KvPrefixes::droppable() const {
  return static_cast<std::int32_t>(std::ranges::count_if(
      nodes_, [&](const Node& node) { return pages_.holders(node.page_) == 1; }));
}

void KvPrefixes::drop(Nodes::iterator at) {
  std::vector<Node*>& siblings = children(at->root_, at->above_);
  std::erase(siblings, &*at);
  if (at->above_ == nullptr && siblings.empty()) roots_.erase(at->root_);
  pages_.give_back(at->page_);
  nodes_.erase(at);
}

}  // namespace outrider
