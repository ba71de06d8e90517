// Batches of labelled documents for a draft's training: the teacher's label of each row, over the
// tokens that the draft's output matrix has.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/data/random.h"
#include "adapters/distill/label_targets.h"
#include "adapters/labels/label_files.h"
#include "common/base/status.h"

namespace outrider {

// Documents one after the other in one sequence; each document sees itself alone.
struct LabelBatch {
  at::Tensor ids;        // [1, n] int64
  at::Tensor starts;     // [n] int64: the first position that each position sees
  at::Tensor places;     // [rows] int64: the positions that have labels
  LabelTargets targets;  // of the draft's logits at these places
};

// All labels of a directory, in memory.
class LabelSet final {
 public:
  // head_tokens: those of the draft's config; empty: all.
  static Result<LabelSet> load(const std::string& directory,
                               const std::vector<TokenId>& head_tokens);

  const LabelIndex& index() const { return index_; }
  std::size_t size() const { return documents_.size(); }
  std::int64_t tokens_of(std::size_t document) const {
    return std::ssize(documents_[document].document.tokens);
  }
  LabelBatch batch(const std::vector<std::uint32_t>& documents) const;

 private:
  struct Labelled {
    Document document;
    std::vector<std::int32_t> columns;  // [rows, top_k], -1: not in the draft's output matrix
    std::vector<float> probabilities;   // [rows, top_k]
  };

  LabelIndex index_;
  std::vector<Labelled> documents_;
};

// An endless order of some documents, shuffled anew in each epoch; a function of seed and number.
class EpochOrder final {
 public:
  EpochOrder(std::vector<std::uint32_t> documents, std::uint64_t seed);

  // The next documents: at most `tokens` tokens together, but at least one document.
  std::vector<std::uint32_t> next(const LabelSet& labels, std::int64_t tokens);
  double epochs() const;  // completed so far, with a fraction

 private:
  std::vector<std::uint32_t> order_;
  SplitMix64 random_;
  std::size_t at_ = 0;
  std::int64_t whole_ = 0;
};

}  // namespace outrider
