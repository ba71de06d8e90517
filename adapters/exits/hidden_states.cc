// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/hidden_states.h"

#include <algorithm>
#include <numeric>

namespace outrider {
namespace {

class CollectingTap final : public LayerTap {
 public:
  CollectingTap(const std::vector<std::int32_t>& layers, HiddenBatch& batch)
      : layers_(layers), batch_(batch) {}

  bool wants(std::int32_t layer) const override {
    return std::binary_search(layers_.begin(), layers_.end(), layer);
  }
  // Parts of a long pass come in order, so appending keeps the rows' order.
  void on_layer(const HiddenRows& rows) override {
    const auto at = std::lower_bound(layers_.begin(), layers_.end(), rows.layer);
    std::vector<float>& to = batch_.hidden[static_cast<std::size_t>(at - layers_.begin())];
    to.insert(to.end(), rows.values, rows.values + rows.count * rows.width);
  }

 private:
  const std::vector<std::int32_t>& layers_;
  HiddenBatch& batch_;
};

}  // namespace

Result<HiddenReader> HiddenReader::make(Model& model, std::vector<std::int32_t> layers) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                            model.new_cache(static_cast<std::int32_t>(model.info().max_positions)));
  return HiddenReader(model, std::move(layers), std::move(cache));
}

Status HiddenReader::read(const Document& document, HiddenBatch& batch) {
  const std::size_t length =
      std::min(document.tokens.size(), static_cast<std::size_t>(model_.info().max_positions));
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (std::size_t i = 0; i + 1 < length; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(slot, cache_->slots().append(slot));
    const bool wanted = document.learnt[i + 1] != 0;
    rows.push_back({cache_.get(), slot, document.tokens[i], wanted});
    if (wanted) batch.next.push_back(document.tokens[i + 1]);
  }
  CollectingTap tap(layers_, batch);
  out_.tap = &tap;
  const Status status = model_.forward(rows, out_);
  out_.tap = nullptr;
  cache_->slots().release_all_uncommitted();
  OUTRIDER_RETURN_IF_ERROR(status);
  batch.logits.insert(batch.logits.end(), out_.logits.begin(), out_.logits.end());
  return {};
}

std::size_t learnt_rows(const Document& document) {
  return static_cast<std::size_t>(
      std::accumulate(document.learnt.begin() + 1, document.learnt.end(), std::size_t{0}));
}

DocumentOrder::DocumentOrder(std::vector<Source> sources, std::uint64_t seed)
    : sources_(std::move(sources)), cursors_(sources_.size()), random_(seed) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    OUTRIDER_CHECK(!sources_[i].documents.empty());
    cursors_[i].order.resize(sources_[i].documents.size());
    std::iota(cursors_[i].order.begin(), cursors_[i].order.end(), 0u);
    random_.shuffle(cursors_[i].order);
  }
}

const Document& DocumentOrder::next() {
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < cursors_.size(); ++i) {
    if (cursors_[i].rows_per_share < cursors_[chosen].rows_per_share) chosen = i;
  }
  Cursor& cursor = cursors_[chosen];
  if (cursor.at == cursor.order.size()) {
    random_.shuffle(cursor.order);
    cursor.at = 0;
  }
  const Document& document = sources_[chosen].documents[cursor.order[cursor.at++]];
  cursor.rows_per_share += static_cast<double>(learnt_rows(document) + 1) / sources_[chosen].share;
  return document;
}

}  // namespace outrider
