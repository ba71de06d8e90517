// The tokenizer in a GGUF file's keys tokenizer.ggml.* and tokenizer.chat_template.
//
// tokenizer.ggml.model "gpt2" is byte-level BPE, which splits text according to a name
// (tokenizer.ggml.pre, gguf_splitting.h). "llama" is SentencePiece, "gemma4" the same with a list
// of merges instead of scores. Token types give special tokens (control, unknown), added ones
// (user-defined) and padding (unused,
// "[PAD7]").
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/engine/gguf/gguf_metadata.h"
#include "common/engine/text/format/tokenizer_files.h"

namespace outrider {

// Errors: kNotFound if the file has no tokenizer; kDataLoss for missing keys, arrays that differ in
// length, ids out of range, tokens that are not UTF-8; kUnimplemented for another model or
// splitting, with the supported ones. All name the key.
Result<TokenizerParts> parse_gguf_tokenizer(const GgufMetadata& metadata);

}  // namespace outrider
