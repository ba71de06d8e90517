// A teacher's labels of a text, stored on disk: for every learnt token the teacher's likeliest
// tokens with their probabilities and, on request, its hidden states. A shortlist holds the tokens
// to which the labels give most weight.
//
//   labels.json            what was labelled, by which teacher and how (LabelIndex)
//   labels-00000.safetensors   documents 0 .. shard_documents - 1; written whole or not at all
//
// A shard's tensors: lengths [documents], tokens and learnt [all tokens], ids and log_probabilities
// [rows, top_k] f32; hidden.LAYER [rows, hidden_size] bf16. There is one row for each learnt token,
// in order, except a document's first token.
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
  std::string dtype;      // of the teacher's arithmetic
  std::string tokenizer;  // its content hash
  std::string text;       // SHA-256 of the documents' tokens
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;
  std::int32_t top_k = 0;
  std::vector<std::int32_t> layers = {};  // of the stored hidden states, ascending
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

// The tokens that a draft may propose, or that exits consider.
struct Shortlist {
  std::vector<TokenId> tokens = {};  // ascending
  double covered = 0;                // share of the labels' weight on these tokens
};

// `size` tokens, including `stop_ids`. If the labels name fewer tokens, the vocabulary's first
// tokens fill the list: byte-pair encodings make those of the most frequent pairs. Errors: those
// of the labels' files.
Result<Shortlist> choose_shortlist(const std::string& labels, const std::vector<TokenId>& stop_ids,
                                   std::int64_t size);

}  // namespace outrider
