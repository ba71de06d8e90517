// Texts whose keys and values are kept, as trees of pages: each page hangs under the one that holds
// the text before it. Texts that begin alike share their pages; so do sessions that go on from
// them, as equal rows have equal bits (docs/row-invariance.md).
//
//   root "alice":  [system prompt, 64 tokens] -+- [question, 64] - [answer, 20]
//                                              +- [other question, 31]
//
// A page with fewer than 64 tokens ends a text. Nothing is found under another root, so no timing
// tells one tenant what another has asked. Tokens are compared, not their hashes.
//
// Thread rule: owned by the compute thread. Ownership: holds each page once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/engine/model/kv_pages.h"

namespace outrider {

class KvPrefixes final {
 public:
  class Node {
   public:
    KvPage page() const { return page_; }

   private:
    friend class KvPrefixes;
    std::string root_;
    Node* above_ = nullptr;  // null: the root
    std::vector<TokenId> tokens_;
    KvPage page_ = 0;
    std::int32_t owner_ = 0;
    TimePoint used_;
    std::vector<Node*> children_ = {};
    std::list<Node>::iterator self_ = {};
  };

  // pages: outlives this.
  explicit KvPrefixes(KvPages& pages) : pages_(pages) {}
  ~KvPrefixes();
  KvPrefixes(const KvPrefixes&) = delete;
  KvPrefixes& operator=(const KvPrefixes&) = delete;

  struct Found {
    std::vector<KvPage> pages;  // of `length` positions; the last may hold more
    Position length = 0;
    Node* full = nullptr;  // of the last page that is found whole; null: none
  };
  // The longest beginning of `text` that is kept under the root. Its pages are now the last to go.
  Found find(const std::string& root, std::span<const TokenId> text, TimePoint now);

  // Keeps a page with these tokens, 1 to 64, under `above` (null: the root; else a full page). The
  // result may be another's page with the same text. owner: as KvPages::take() says. Null: the
  // tokens are the beginning of another page, and this one is not kept.
  Node* add(const std::string& root, Node* above, std::span<const TokenId> tokens, KvPage page,
            std::int32_t owner, TimePoint now);

  // Gives back the page that has been unused for longest of those that nobody else holds and no
  // other hangs under. of: only pages of this owner. False: there is none.
  bool drop_one(std::optional<std::int32_t> of = std::nullopt);
  // Drops what was last used at `time` or before; what somebody holds counts as used now.
  void drop_unused_since(TimePoint time, TimePoint now);
  // When the longest unused page was last used; nothing: there are no pages.
  std::optional<TimePoint> unused_since() const {
    return nodes_.empty() ? std::nullopt : std::optional(nodes_.front().used_);
  }

  // Pages that drop_one() could give back, one after the other.
  std::int32_t droppable() const;

 private:
  using Nodes = std::list<Node>;

  std::vector<Node*>& children(const std::string& root, Node* above);
  void touch(Node* node, TimePoint now);
  bool may_drop(const Node& node) const;
  void drop(Nodes::iterator at);

  KvPages& pages_;
  Nodes nodes_;  // longest unused first
  std::map<std::string, std::vector<Node*>, std::less<>> roots_;
};

}  // namespace outrider
