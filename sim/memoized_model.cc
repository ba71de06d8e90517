// SPDX-License-Identifier: Apache-2.0
#include "sim/memoized_model.h"

#include <algorithm>

#include "common/engine/model/cell_values.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

constexpr std::int32_t kTreeSlots = 4096;  // at least; and twice the longest text

// Whether a tap or a pruner looks at the layer.
bool is_seen(const PassOutput& out, std::int32_t layer) {
  return (out.tap != nullptr && out.tap->wants(layer)) ||
         (out.pruner != nullptr && out.pruner->wants(layer));
}

}  // namespace

// Stores the hidden states of the rows that a pass computes.
class MemoizedModel::KeepingTap final : public LayerTap {
 public:
  KeepingTap(const PassOutput& out, const std::vector<Text*>& rows) : out_(out), rows_(rows) {}

  bool wants(std::int32_t layer) const override { return is_seen(out_, layer); }
  void on_layer(const HiddenRows& hidden) override {
    for (std::size_t i = 0; i < hidden.count; ++i) {
      const std::span<const float> row = hidden.row(i);
      rows_[hidden.first + i]->hidden[hidden.layer].assign(row.begin(), row.end());
    }
  }

 private:
  const PassOutput& out_;
  const std::vector<Text*>& rows_;  // rows with logits
};

Result<std::shared_ptr<KvPages>> MemoizedModel::new_pages(std::int32_t count) {
  return std::shared_ptr<KvPages>(std::make_shared<CellValues<TextId>>(this, count));
}

void MemoizedModel::forget() {
  texts_.clear();
  if (tree_ != nullptr) tree_->slots().release_all_uncommitted();
}

MemoizedModel::TextId MemoizedModel::note(const Row& row) {
  auto& pages = static_cast<CellValues<TextId>&>(row.cache->pages());
  const TextId before = pages.before(row, 0);
  const TextId text = mixed(before ^ mixed(static_cast<std::uint64_t>(row.token) + 1));
  texts_.try_emplace(text, Text{.before = before, .token = row.token});
  return pages.of(row) = text;
}

bool MemoizedModel::knows(const Text& text, const PassOutput& out) const {
  if (text.logits.empty()) return false;
  for (std::int32_t layer = 1; layer < info().num_layers; ++layer) {
    if (is_seen(out, layer) && !text.hidden.contains(layer)) return false;
  }
  return true;
}

Status MemoizedModel::forward(std::span<const Row> rows, PassOutput& out) {
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  std::vector<TextId> wanted, unknown;
  for (const Row& row : rows) {
    const TextId text = note(row);
    if (!row.wants_logits) continue;
    wanted.push_back(text);
    const bool twice = std::ranges::find(unknown, text) != unknown.end();
    if (!twice && !knows(texts_.at(text), out)) unknown.push_back(text);
  }
  if (!unknown.empty()) OUTRIDER_RETURN_IF_ERROR(compute(unknown, out));
  write(wanted, out);
  return {};
}

Status MemoizedModel::make_tree(std::size_t longest) {
  if (tree_ != nullptr && tree_->slots().capacity() >= static_cast<std::int32_t>(longest))
    return {};
  empty_tree();
  const auto slots = static_cast<std::int32_t>(longest) + kTreeSlots;
  // Nearly all of its rows branch off.
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<KvPages> pages,
                            model_->new_pages(2 * KvSlots::pages_for(slots)));
  tree_ = std::make_unique<KvCache>(std::move(pages), slots);
  return {};
}

void MemoizedModel::empty_tree() {
  for (auto& [id, text] : texts_) text.slot = kRootSlot;
  if (tree_ != nullptr) tree_->slots().release_all_uncommitted();
}

bool MemoizedModel::add_rows(TextId text, std::vector<TextId>& added, std::vector<Row>& pass) {
  std::vector<TextId> path;
  for (TextId id = text; id != 0 && texts_.at(id).slot == kRootSlot; id = texts_.at(id).before) {
    path.push_back(id);
  }
  // Computed before, but without something that is needed now.
  if (path.empty()) path.push_back(text);
  std::ranges::reverse(path);
  for (const TextId id : path) {
    Text& one = texts_.at(id);
    if (one.slot == kRootSlot) {
      const Slot parent = one.before == 0 ? kRootSlot : texts_.at(one.before).slot;
      const Result<Slot> slot = tree_->slots().append(parent);
      if (!slot.ok()) return false;
      one.slot = *slot;
    }
    if (std::ranges::find(added, id) != added.end()) continue;
    added.push_back(id);
    pass.push_back({tree_.get(), one.slot, one.token, false});
  }
  return true;
}

Status MemoizedModel::compute(const std::vector<TextId>& unknown, const PassOutput& out) {
  std::size_t longest = 0;
  for (const TextId id : unknown) {
    std::size_t length = 1;
    for (TextId at = texts_.at(id).before; at != 0; at = texts_.at(at).before) ++length;
    longest = std::max(longest, length);
  }
  OUTRIDER_RETURN_IF_ERROR(make_tree(longest + unknown.size()));
  std::vector<TextId> added;
  std::vector<Row> pass;
  const auto add_all = [&] {
    return std::ranges::all_of(unknown, [&](TextId id) { return add_rows(id, added, pass); });
  };
  if (!add_all()) {
    empty_tree();
    added.clear();
    pass.clear();
    if (!add_all()) return internal_error("the tree of known texts has no room for a pass");
  }
  std::vector<Text*> wanted;
  for (std::size_t i = 0; i < added.size(); ++i) {
    pass[i].wants_logits = std::ranges::find(unknown, added[i]) != unknown.end();
    if (pass[i].wants_logits) wanted.push_back(&texts_.at(added[i]));
  }
  PassOutput computed{.abandoned = out.abandoned};
  std::optional<KeepingTap> keeping;
  if (out.tap != nullptr || out.pruner != nullptr) computed.tap = &keeping.emplace(out, wanted);
  const Status status = model_->forward(pass, computed);
  if (!status.ok()) {
    empty_tree();
    return status;
  }
  computed_rows_ += pass.size();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::span<const float> logits = computed.row(i);
    wanted[i]->logits.assign(logits.begin(), logits.end());
  }
  return {};
}

void MemoizedModel::write(const std::vector<TextId>& wanted, PassOutput& out) const {
  out.vocab_size = info().vocab_size;
  out.logits.clear();
  out.places.clear();
  std::vector<float> hidden;
  for (std::int32_t layer = 1; layer < info().num_layers && !wanted.empty(); ++layer) {
    if (!is_seen(out, layer)) continue;
    hidden.clear();
    for (const TextId id : wanted) {
      const std::vector<float>& row = texts_.at(id).hidden.at(layer);
      hidden.insert(hidden.end(), row.begin(), row.end());
    }
    const HiddenRows rows{.layer = layer,
                          .first = 0,
                          .count = wanted.size(),
                          .width = hidden.size() / wanted.size(),
                          .values = hidden.data()};
    if (out.tap != nullptr && out.tap->wants(layer)) out.tap->on_layer(rows);
    if (out.pruner != nullptr && out.pruner->wants(layer)) prune(rows, out);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!out.has_row(i)) continue;
    const std::vector<float>& logits = texts_.at(wanted[i]).logits;
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
  }
}

// The real model has computed everything: only the emulated device saves time.
void MemoizedModel::prune(const HiddenRows& rows, PassOutput& out) const {
  std::vector<std::uint8_t> keep(rows.count, 1);
  out.pruner->prune(rows, keep);
  std::int32_t place = 0;
  for (const std::uint8_t kept : keep) out.places.push_back(kept != 0 ? place++ : -1);
}

}  // namespace outrider
