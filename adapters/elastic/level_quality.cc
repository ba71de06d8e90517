// SPDX-License-Identifier: Apache-2.0
#include "adapters/elastic/level_quality.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "adapters/exits/hidden_states.h"
#include "common/engine/model/cpu/cpu_model.h"

namespace outrider {
namespace {

// log(sum(exp(logits))).
double log_sum(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
}

std::size_t likeliest(std::span<const float> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

// One position: a level's logits beside the full model's.
void add_row(std::span<const float> full, std::span<const float> part, TokenId next,
             LevelQuality& sums) {
  const double full_sum = log_sum(full), part_sum = log_sum(part);
  for (std::size_t i = 0; i < full.size(); ++i) {
    const double p = std::exp(full[i] - full_sum);
    if (p > 0) sums.divergence += p * ((full[i] - full_sum) - (part[i] - part_sum));
  }
  sums.loss += part_sum - part[static_cast<std::size_t>(next)];
  sums.agreement += likeliest(full) == likeliest(part) ? 1 : 0;
}

void add_document(const HiddenBatch& full, const HiddenBatch& part, LevelQuality& sums) {
  const std::size_t vocab = full.logits.size() / full.rows();
  for (std::size_t row = 0; row < full.rows(); ++row) {
    const auto of = [&](const HiddenBatch& batch) {
      return std::span(batch.logits).subspan(row * vocab, vocab);
    };
    add_row(of(full), of(part), full.next[row], sums);
  }
}

}  // namespace

Result<std::vector<LevelQuality>> measure_levels(
    Model& full, std::span<const ElasticLevel> levels, const std::vector<Document>& documents,
    const std::function<void(std::int64_t)>& on_document) {
  std::vector<std::unique_ptr<Model>> models;
  std::vector<HiddenReader> readers;
  OUTRIDER_ASSIGN_OR_RETURN(HiddenReader full_reader, HiddenReader::make(full, {}));
  for (const ElasticLevel& level : levels) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, make_level(full, level));
    models.push_back(std::move(model));
    OUTRIDER_ASSIGN_OR_RETURN(HiddenReader reader, HiddenReader::make(*models.back(), {}));
    readers.push_back(std::move(reader));
  }
  std::vector<LevelQuality> qualities(levels.size());
  double tokens = 0;
  std::int64_t done = 0;
  for (const Document& document : documents) {
    HiddenBatch whole = full_reader.empty_batch();
    OUTRIDER_RETURN_IF_ERROR(full_reader.read(document, whole));
    for (std::size_t i = 0; i < levels.size() && whole.rows() > 0; ++i) {
      HiddenBatch part = readers[i].empty_batch();
      OUTRIDER_RETURN_IF_ERROR(readers[i].read(document, part));
      add_document(whole, part, qualities[i]);
    }
    tokens += static_cast<double>(whole.rows());
    on_document(++done);
  }
  for (LevelQuality& quality : qualities) {
    quality.loss /= std::max(1.0, tokens);
    quality.divergence = std::max(0.0, quality.divergence / std::max(1.0, tokens));
    quality.agreement /= std::max(1.0, tokens);
  }
  return qualities;
}

}  // namespace outrider
