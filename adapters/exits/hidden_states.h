// A frozen target's hidden states after chosen layers and its final logits over documents, for
// training exits. They come through the interface that a server's exits use (LayerTap). So exits
// can be trained for any model that Outrider runs, on any device, in the arithmetic in which it is
// served.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapters/data/corpus.h"
#include "common/base/status.h"
#include "common/engine/model/model.h"

namespace outrider {

// Rows of one or more documents that predict a learnt token.
struct HiddenBatch {
  std::vector<std::vector<float>> hidden = {};  // by requested layer: [rows, hidden_size]
  std::vector<float> logits = {};               // [rows, vocab]
  std::vector<TokenId> next = {};               // [rows]: the token that follows in the text

  std::size_t rows() const { return next.size(); }
};

class HiddenReader final {
 public:
  // model: outlives this object. layers: ascending, 1 .. num_layers - 1.
  static Result<HiddenReader> make(Model& model, std::vector<std::int32_t> layers);

  // Appends the document's rows; tokens beyond the model's context are left out.
  Status read(const Document& document, HiddenBatch& batch);
  HiddenBatch empty_batch() const {
    return {.hidden = std::vector<std::vector<float>>(layers_.size())};
  }

 private:
  HiddenReader(Model& model, std::vector<std::int32_t> layers, std::unique_ptr<KvCache> cache)
      : model_(model), layers_(std::move(layers)), cache_(std::move(cache)) {}

  Model& model_;
  std::vector<std::int32_t> layers_;
  std::unique_ptr<KvCache> cache_;
  PassOutput out_;
};

// An endless order of documents from several sources. Each source has its own shuffled order, and
// shares count learnt rows. A function of sources, seed and number of draws alone.
class DocumentOrder final {
 public:
  DocumentOrder(std::vector<Source> sources, std::uint64_t seed);
  const Document& next();

 private:
  struct Cursor {
    std::vector<std::uint32_t> order;
    std::size_t at = 0;
    double rows_per_share = 0;
  };

  std::vector<Source> sources_;
  std::vector<Cursor> cursors_;
  SplitMix64 random_;
};

// The number of rows that a document adds to a batch, if it fits the model's context.
std::size_t learnt_rows(const Document& document);

}  // namespace outrider
