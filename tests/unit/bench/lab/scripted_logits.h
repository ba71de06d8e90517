// A model whose logits are written down, row by row. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "common/engine/model/cell_values.h"
#include "common/engine/model/model.h"

namespace outrider {

class ScriptedLogits final : public Model {
 public:
  explicit ScriptedLogits(std::vector<std::vector<float>> rows) : rows_(std::move(rows)) {
    info_.vocab_size = static_cast<std::int32_t>(rows_.front().size());
  }

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return std::shared_ptr<KvPages>(std::make_shared<CellValues<int>>(this, count));
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    out.vocab_size = info_.vocab_size;
    out.logits.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      out.logits.insert(out.logits.end(), rows_[i].begin(), rows_[i].end());
    }
    return {};
  }

  // The probabilities that `model` gives behind each row of a chain of these tokens, zeros if there
  // are none.
  std::vector<std::vector<double>> chances_of(Model& model,
                                              std::vector<TokenId> tokens = {}) const {
    tokens.resize(rows_.size());
    const std::unique_ptr<KvCache> cache = *model.new_cache(8);
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (const TokenId token : tokens) {
      slot = *cache->slots().append(slot);
      rows.push_back({cache.get(), slot, token});
    }
    PassOutput out;
    if (!model.forward(rows, out).ok()) return {};
    std::vector<std::vector<double>> chances;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double sum = 0;
      for (const float logit : out.row(i)) sum += std::exp(double{logit});
      std::vector<double>& row = chances.emplace_back();
      for (const float logit : out.row(i)) row.push_back(std::exp(double{logit}) / sum);
    }
    return chances;
  }

 private:
  const std::vector<std::vector<float>> rows_;
  ModelInfo info_;
};

}  // namespace outrider
