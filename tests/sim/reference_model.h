// "Positions, ids and states" of docs/protocol.md once more, as naively as can be: a node is the
// whole text from position 0 to itself, and its state is a comparison of two texts. Written apart
// from common/decoding/tree, to check both sides' trees against.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/decoding/tree/mirrored_tree.h"

namespace outrider {

class ReferenceModel final {
 public:
  // The edge, whose committed text is `text`, sends this message.
  void sent(std::span<const TokenId> text, const Grow& grow);

  // The texts of the living nodes with id <= last_id, for a side with this committed text.
  std::set<std::string> living(std::span<const TokenId> text, NodeId last_id) const;

  // The fault in that side's tree; empty if there is none.
  std::string compare(const MirroredTree& tree) const;

  const std::string& text_of(NodeId id) const { return nodes_.at(id); }

  // Texts as strings, one "token," per position.
  static std::string spell(std::span<const TokenId> text);

 private:
  std::map<NodeId, std::string> nodes_;
};

}  // namespace outrider
