// A teacher's labels of a text, cached on disk: for every learnt token the teacher's likeliest
// tokens with their probabilities, and, if asked for, its hidden states.
//
//   labels.json            what was labelled, by whom, how (LabelIndex)
//   labels-00000.safetensors   documents 0 .. shard_documents - 1, whole or not at all
//
// A shard's tensors: lengths [documents], tokens and learnt [all tokens], ids and log_probabilities
// [rows, top_k] f32; hidden.LAYER [rows, hidden_size] bf16. A row stands for each token that is
// learnt, in order, but a document's first.
//
// Thread rule: free functions. Errors: kDataLoss for files that are damaged or do not fit each
// other. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/data/corpus.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

struct LabelIndex {
  std::string teacher;    // its fingerprint
  std::string dtype;      // in which it computed
  std::string tokenizer;  // its content hash
  std::string text;       // SHA-256 of the documents' tokens
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;
  std::int32_t top_k = 0;
  std::vector<std::int32_t> layers = {};  // whose hidden states are kept, rising
  std::int64_t documents = 0;
  std::int64_t shard_documents = 0;

  std::int64_t shards() const { return (documents + shard_documents - 1) / shard_documents; }
  friend bool operator==(const LabelIndex&, const LabelIndex&) = default;
};

struct LabelShard {
  std::vector<Document> documents = {};
  std::vector<TokenId> ids = {};                        // [rows, top_k], likeliest first
  std::vector<float> log_probabilities = {};            // [rows, top_k]
  std::vector<std::vector<std::uint16_t>> hidden = {};  // by layer: [rows, hidden_size] bf16
};

Result<LabelIndex> read_label_index(const std::string& directory);
Status write_label_index(const std::string& directory, const LabelIndex& index);

bool has_shard(const std::string& directory, std::int64_t number);
Result<LabelShard> read_shard(const std::string& directory, const LabelIndex& index,
                              std::int64_t number);
Status write_shard(const std::string& directory, const LabelIndex& index, std::int64_t number,
                   const LabelShard& shard);

}  // namespace outrider
