// Labels text with a teacher that runs as it is served: any model, dtype and file that Outrider
// loads. The text is turns in the teacher's own chat template, or plain text. Finished labels stay
// on disk, and an interrupted run resumes at the next shard.
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
#include "common/engine/model/model.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

struct LabelText {
  std::vector<std::string> data = {};     // JSONL of prompts and answers, both learnt
  std::vector<std::string> answers = {};  // the same; only the answers are learnt
  std::vector<std::string> text = {};     // JSONL of {"text": ..}, all learnt
  std::string chat_template = {};         // empty: the tokenizer's own
  std::int64_t longest = 512;  // tokens; plain text is split into such parts, answers are cut off
};

// The documents of all files, in the order of the fields above. The answer is tokenized apart from
// prompt and template, as a decoding model would see it. The token that ends the turn follows
// unless the answer is cut off. Prompts that leave no room for an answer are left out. Errors:
// those of the files, naming the line; kDataLoss if no document is left.
Result<std::vector<Document>> read_label_text(const Tokenizer& tokenizer, const LabelText& text);

struct LabelOptions {
  std::string out;                        // the directory
  std::int32_t top_k = 16;                // tokens kept of each distribution
  std::vector<std::int32_t> layers = {};  // hidden states after these are stored; ascending
  std::int64_t shard_documents = 64;
};

// The cost of a run, known before it starts.
struct LabelCost {
  std::int64_t tokens = 0, rows = 0;
  std::int64_t disk_bytes = 0;
  std::int64_t memory_bytes = 0;  // besides the model: a cache, the largest document's logits
};
LabelCost label_cost(const ModelInfo& teacher, const std::vector<Document>& documents,
                     const LabelOptions& options);

// A row's top_k tokens with their log probabilities, likeliest first. Of equal ones, the lower id
// is first.
void append_top_k(std::span<const float> logits, std::int32_t top_k, std::vector<TokenId>& ids,
                  std::vector<float>& log_probabilities);

// tokenizer: its content hash. on_progress(tokens labelled so far) is called after each document
// and counts shards of an earlier run. Errors: kFailedPrecondition if the directory holds labels of
// another text, teacher or kind; kInvalidArgument for layers and top_k that the model does not
// have; those of the model and the disk.
Status label_documents(Model& teacher, const std::vector<Document>& documents,
                       const std::string& tokenizer, const LabelOptions& options,
                       const std::function<Status(std::int64_t)>& on_progress);

}  // namespace outrider
