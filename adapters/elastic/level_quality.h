// How far levels of a model are from the full one over the same documents, computed as they are
// served.
//
// Thread rule: one thread, the model's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "adapters/data/corpus.h"
#include "common/base/status.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/model.h"

namespace outrider {

struct LevelQuality {
  double loss = 0;        // mean over the learnt tokens, in nats; its exp is the perplexity
  double divergence = 0;  // as ElasticLevel says
  double agreement = 0;
};

// full: loaded with a level table of the same order. levels: their widths; the full one may be
// among them. on_document: called with the documents done.
Result<std::vector<LevelQuality>> measure_levels(
    Model& full, std::span<const ElasticLevel> levels, const std::vector<Document>& documents,
    const std::function<void(std::int64_t)>& on_document);

}  // namespace outrider
