// The identity of a tokenizer: two with equal hashes give every text the same ids.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/text/pipeline/added_tokens.h"
#include "common/text/pipeline/bpe.h"
#include "common/text/pipeline/normalizer.h"
#include "common/text/pipeline/pre_tokenizer.h"

namespace outrider {

// SHA-256 in hex over a canonical list of what the arguments hold. What only decoding or the
// post-processor uses is left out: ids mean the same without it.
std::string hash_tokenizer_content(const Normalizer& normalizer, const PreTokenizer& pre_tokenizer,
                                   const BpeSpec& model, const AddedTokens& added);

}  // namespace outrider
