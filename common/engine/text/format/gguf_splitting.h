// How byte-level tokenizers in GGUF files split text, by the name in tokenizer.ggml.pre.
//
// The name stands for normaliser and pre-tokenizer of a family's own tokenizer.json, which the file
// does not hold.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/engine/text/pipeline/tokenizer_parts.h"

namespace outrider {

// The splitting of files that name none.
inline constexpr std::string_view kDefaultGgufSplitting = "default";

// Sets normaliser, pre-tokenizer and bpe.ignore_merges. Errors: kUnimplemented for an unknown name,
// with the known ones.
Status set_gguf_splitting(const std::string& name, TokenizerParts& parts);

// Whether a text starts with the first token (<s>) if the file does not say.
bool gguf_adds_bos(const std::string& name);

}  // namespace outrider
