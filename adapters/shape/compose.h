// A draft that shares its target's vocabulary. Trained layers become a model directory with the
// target's own embedding (and output matrix, if it has one).
//
//   config.json          the draft's shape and its shortlist (head_tokens)
//   layers.safetensors   every tensor except embedding and output matrix, bf16
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/format/config.h"
#include "common/engine/model/format/safetensors_writer.h"

namespace outrider {

// Writes both files into `directory`, which it creates if needed.
Status write_draft_layers(const std::string& directory, const ModelConfig& config,
                          std::vector<TensorBytes> tensors);

// Reads `layers` (a directory of the two files) and `target` (a directory or GGUF file); writes the
// model directory `out` in bf16, with the target's tokenizer. Errors: those of the files;
// kInvalidArgument if the draft was made for a target of another width or vocabulary.
Status compose_draft(const std::string& target, const std::string& layers, const std::string& out);

// Reads a JSON list of ascending tokens. Errors: those of reading; kInvalidArgument for any other
// content.
Result<std::vector<TokenId>> read_head_tokens(const std::string& path);

}  // namespace outrider
