// The tokenizer that a GGUF file holds, in its keys tokenizer.ggml.* and tokenizer.chat_template.
//
// tokenizer.ggml.model "gpt2" is byte-level BPE; how it splits text only a name says
// (tokenizer.ggml.pre): smollm, llama-bpe, qwen2, gpt-2 or default. "llama" is SentencePiece.
// Token types make special tokens (control, unknown), added ones (user-defined) and padding
// (unused, "[PAD7]").
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/gguf/gguf_metadata.h"
#include "common/text/format/tokenizer_files.h"

namespace outrider {

// Errors: kNotFound if the file has no tokenizer at all; kDataLoss for missing keys, arrays that
// differ in length, ids out of range, tokens that are not UTF-8; kUnimplemented for another model
// or way of splitting, with those that are supported. All name the key.
Result<TokenizerParts> parse_gguf_tokenizer(const GgufMetadata& metadata);

}  // namespace outrider
