// The identity of a tokenizer: tokenizers with equal hashes encode and decode every text alike.
//
// The hash covers the tokenizer's behaviour and does not depend on the file: a tokenizer.json, a
// tokenizer.model and a GGUF file of one tokenizer have the same hash.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/engine/text/pipeline/added_tokens.h"
#include "common/engine/text/pipeline/bpe.h"
#include "common/engine/text/pipeline/decoder.h"
#include "common/engine/text/pipeline/normalizer.h"
#include "common/engine/text/pipeline/pre_tokenizer.h"

namespace outrider {

// SHA-256 in hex. Covers everything that determines the ids of a text and the text of ids:
//  - the tokens by id, those of the vocabulary and the added ones, with the bytes that each
//    means; ids without a token (padding) are left out
//  - the merges in order, what an unknown character becomes if there can be one, ignore_merges
//  - which tokens are recognised in a text before it is split, and how
//  - the steps of normaliser and pre-tokeniser, and what happens at the start of a decoded text
// Not covered, because it does not change the meaning of ids: what is put around a text (<s>),
// which tokens are special (files of one tokenizer differ in it), names, chat templates.
std::string hash_tokenizer_content(const Normalizer& normalizer, const PreTokenizer& pre_tokenizer,
                                   const BpeModel& model, const AddedTokens& added,
                                   const Decoder& decoder);

}  // namespace outrider
