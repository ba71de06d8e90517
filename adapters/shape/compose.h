// A draft that shares its target's vocabulary: trained layers, committed or just trained, become a
// model directory with the target's own embedding (and output matrix, where it has one).
//
//   config.json          the draft's shape and its shortlist (head_tokens)
//   layers.safetensors   every tensor but embedding and output matrix, bf16
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model/format/config.h"
#include "common/model/format/safetensors_writer.h"

namespace outrider {

// Writes both files into `directory`, which is made if it is not there.
Status write_draft_layers(const std::string& directory, const ModelConfig& config,
                          std::vector<TensorBytes> tensors);

// Reads `layers` (a directory of the two files) and `target` (a directory or GGUF file); writes the
// model directory `out` in bf16, with the target's tokenizer. Errors: those of the files;
// kInvalidArgument if the draft was made for a target of another width or vocabulary.
Status compose_draft(const std::string& target, const std::string& layers, const std::string& out);

// A JSON list of rising tokens. Errors: those of reading; kInvalidArgument for another list.
Result<std::vector<TokenId>> read_head_tokens(const std::string& path);

}  // namespace outrider
