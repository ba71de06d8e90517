// A model that computes each row once. The same tokens have the same logits for every caller (row
// invariance), so runs that decode the same text under other conditions share the work.
//
// Its caches hold no keys and values, only which text lies where. New rows are computed in one
// cache of its own, a tree of all texts so far. If that is full it starts again, and memoized rows
// are kept. A tap sees the hidden states of memoized rows like those of new ones.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/engine/model/model.h"

namespace outrider {

class MemoizedModel final : public Model {
 public:
  explicit MemoizedModel(std::unique_ptr<Model> model) : model_(std::move(model)) {}

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override;
  Status forward(std::span<const Row> rows, PassOutput& out) override;

  // Frees all memoized rows. Only between answers: earlier caches are not used any more.
  void forget();

  std::uint64_t computed_rows() const { return computed_rows_; }

 private:
  // Identifies a text by a hash of its tokens. 0: no token.
  using TextId = std::uint64_t;
  struct Text {
    TextId before = 0;               // the text without its last token
    TokenId token = 0;               // the last token
    Slot slot = kRootSlot;           // in tree_; kRootSlot: not computed there
    std::vector<float> logits = {};  // [vocab]; empty: not computed
    std::map<std::int32_t, std::vector<float>> hidden = {};  // by layer: [hidden_size]
  };
  class KeepingTap;

  TextId note(const Row& row);
  bool knows(const Text& text, const PassOutput& out) const;
  Status compute(const std::vector<TextId>& unknown, const PassOutput& out);
  Status make_tree(std::size_t longest);
  void empty_tree();
  // Adds rows for the parts of the text that were not computed; false if the tree has no room.
  bool add_rows(TextId text, std::vector<TextId>& added, std::vector<Row>& pass);
  void write(const std::vector<TextId>& wanted, PassOutput& out) const;
  void prune(const HiddenRows& rows, PassOutput& out) const;

  const std::unique_ptr<Model> model_;
  std::unordered_map<TextId, Text> texts_;
  std::unique_ptr<KvCache> tree_;  // never committed
  std::uint64_t computed_rows_ = 0;
};

}  // namespace outrider
