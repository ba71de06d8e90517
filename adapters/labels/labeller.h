// Labels text with a teacher that runs as it is served: any model, dtype and file that Outrider
// loads. What was labelled stays: a run that was ended goes on with the next shard.
//
// Thread rule: one thread, the model's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adapters/data/corpus.h"
#include "adapters/labels/label_files.h"
#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

struct LabelOptions {
  std::string out;                        // the directory
  std::int32_t top_k = 16;                // tokens kept of each distribution
  std::vector<std::int32_t> layers = {};  // hidden states kept after these, rising
  std::int64_t shard_documents = 64;
};

// What a run costs, before it starts.
struct LabelCost {
  std::int64_t tokens = 0, rows = 0;
  std::int64_t disk_bytes = 0;
  std::int64_t memory_bytes = 0;  // beside the model: a cache and the largest document's logits
};
LabelCost label_cost(const ModelInfo& teacher, const std::vector<Document>& documents,
                     const LabelOptions& options);

// The teacher's top_k tokens of a row of logits with their log probabilities, likeliest first; ties
// go to the lower id.
void append_top_k(std::span<const float> logits, std::int32_t top_k, std::vector<TokenId>& ids,
                  std::vector<float>& log_probabilities);

// tokenizer: its content hash. on_progress(tokens labelled, of all) after each document, shards of
// an earlier run included. Errors: kFailedPrecondition if the directory holds labels of another
// text, teacher or kind; kInvalidArgument for layers and top_k that the model has not; those of the
// model and the disk.
Status label_documents(Model& teacher, const std::vector<Document>& documents,
                       const std::string& tokenizer, const LabelOptions& options,
                       const std::function<Status(std::int64_t)>& on_progress);

}  // namespace outrider
