// SPDX-License-Identifier: Apache-2.0
#include "adapters/distill/label_batches.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "adapters/exits/hidden_states.h"

namespace outrider {

Result<LabelSet> LabelSet::load(const std::string& directory,
                                const std::vector<TokenId>& head_tokens) {
  LabelSet set;
  OUTRIDER_ASSIGN_OR_RETURN(set.index_, read_label_index(directory));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::int32_t> column,
                            logit_columns(head_tokens, set.index_.vocab_size));
  const auto top_k = static_cast<std::size_t>(set.index_.top_k);
  for (std::int64_t number = 0; number < set.index_.shards(); ++number) {
    OUTRIDER_ASSIGN_OR_RETURN(LabelShard shard, read_shard(directory, set.index_, number));
    std::size_t at = 0;
    for (Document& document : shard.documents) {
      Labelled labelled{std::move(document), {}, {}};
      for (const std::size_t end = at + learnt_rows(labelled.document) * top_k; at < end; ++at) {
        labelled.columns.push_back(column[static_cast<std::size_t>(shard.ids[at])]);
        labelled.probabilities.push_back(std::exp(shard.log_probabilities[at]));
      }
      set.documents_.push_back(std::move(labelled));
    }
  }
  return set;
}

LabelBatch LabelSet::batch(const std::vector<std::uint32_t>& documents) const {
  std::vector<std::int64_t> ids, starts, places;
  std::vector<std::int64_t> columns;
  std::vector<float> probabilities;
  for (const std::uint32_t number : documents) {
    const Labelled& labelled = documents_[number];
    const auto start = static_cast<std::int64_t>(ids.size());
    const std::vector<TokenId>& tokens = labelled.document.tokens;
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    starts.resize(ids.size(), start);
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (labelled.document.learnt[i + 1] != 0)
        places.push_back(start + static_cast<std::int64_t>(i));
    }
    columns.insert(columns.end(), labelled.columns.begin(), labelled.columns.end());
    probabilities.insert(probabilities.end(), labelled.probabilities.begin(),
                         labelled.probabilities.end());
  }
  LabelBatch batch;
  batch.ids = at::tensor(ids, at::kLong).view({1, -1});
  batch.starts = at::tensor(starts, at::kLong);
  batch.places = at::tensor(places, at::kLong);
  batch.targets = label_targets(columns, probabilities, index_.top_k);
  return batch;
}

EpochOrder::EpochOrder(std::vector<std::uint32_t> documents, std::uint64_t seed)
    : order_(std::move(documents)), random_(seed) {
  OUTRIDER_CHECK(!order_.empty());
  random_.shuffle(order_);
}

std::vector<std::uint32_t> EpochOrder::next(const LabelSet& labels, std::int64_t tokens) {
  std::vector<std::uint32_t> chosen;
  while (true) {
    if (at_ == order_.size()) {
      if (!chosen.empty()) return chosen;
      random_.shuffle(order_);
      at_ = 0;
      ++whole_;
    }
    tokens -= labels.tokens_of(order_[at_]);
    if (tokens < 0 && !chosen.empty()) return chosen;
    chosen.push_back(order_[at_++]);
  }
}

double EpochOrder::epochs() const {
  return static_cast<double>(whole_) +
         static_cast<double>(at_) / static_cast<double>(order_.size());
}

}  // namespace outrider
