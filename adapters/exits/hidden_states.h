// What a frozen target computes over documents, for training exits: hidden states after chosen
// layers and the final logits, through the same seam that a server's exits use (LayerTap). So any
// model that Outrider runs can be given exits, on any device, in the arithmetic it is served in.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapters/data/corpus.h"
#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// Rows that predict a learnt token, of one or more documents.
struct HiddenBatch {
  std::vector<std::vector<float>> hidden = {};  // by layer asked for: [rows, hidden_size]
  std::vector<float> logits = {};               // [rows, vocab]
  std::vector<TokenId> next = {};               // [rows]: the token that follows in the text

  std::size_t rows() const { return next.size(); }
};

class HiddenReader final {
 public:
  // model: outlives this. layers: rising, 1 .. num_layers - 1.
  static Result<HiddenReader> make(Model& model, std::vector<std::int32_t> layers);

  // Appends the document's rows; what is beyond the model's context is left out.
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

// An endless order of documents from several sources, each source in its own shuffled order, shares
// measured in learnt rows. A function of sources, seed and number of draws alone.
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

// The rows that a document gives to a batch, if it fits the model's context.
std::size_t learnt_rows(const Document& document);

}  // namespace outrider
