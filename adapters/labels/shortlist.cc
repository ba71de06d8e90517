// SPDX-License-Identifier: Apache-2.0
#include "adapters/labels/shortlist.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "adapters/labels/label_files.h"

namespace outrider {

Result<Shortlist> choose_shortlist(const std::string& labels, const std::vector<TokenId>& stop_ids,
                                   std::int64_t size) {
  OUTRIDER_ASSIGN_OR_RETURN(const LabelIndex index, read_label_index(labels));
  std::vector<double> weights(static_cast<std::size_t>(index.vocab_size));
  for (std::int64_t number = 0; number < index.shards(); ++number) {
    OUTRIDER_ASSIGN_OR_RETURN(const LabelShard shard, read_shard(labels, index, number));
    for (std::size_t i = 0; i < shard.ids.size(); ++i) {
      weights[static_cast<std::size_t>(shard.ids[i])] += std::exp(shard.log_probabilities[i]);
    }
  }
  std::vector<bool> ends(weights.size());
  for (const TokenId stop : stop_ids) ends.at(static_cast<std::size_t>(stop)) = true;
  Shortlist list;
  list.tokens.resize(weights.size());
  std::iota(list.tokens.begin(), list.tokens.end(), 0);
  std::stable_sort(list.tokens.begin(), list.tokens.end(), [&](TokenId a, TokenId b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return ends[i] != ends[j] ? ends[i] : weights[i] > weights[j];
  });
  list.tokens.resize(std::min(list.tokens.size(), static_cast<std::size_t>(size)));
  for (const TokenId token : list.tokens) list.covered += weights[static_cast<std::size_t>(token)];
  list.covered /= std::max(1e-30, std::accumulate(weights.begin(), weights.end(), 0.0));
  std::sort(list.tokens.begin(), list.tokens.end());
  return list;
}

}  // namespace outrider
