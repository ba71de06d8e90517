// How byte-level tokenizers of GGUF files split text, by the name that the files give it.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/text/pipeline/tokenizer_parts.h"

namespace outrider {

// Sets normaliser, pre-tokeniser and bpe.ignore_merges as the name (tokenizer.ggml.pre) has them.
// Errors: kUnimplemented for a name that is not supported, with those that are.
Status set_gguf_splitting(const std::string& name, TokenizerParts& parts);

// Whether a text starts with <s> if the file says nothing of it.
bool gguf_adds_bos(const std::string& name);

}  // namespace outrider
