// The identity of a tokenizer: two with equal hashes read and write every text alike.
//
// It is taken over what the tokenizer does, in a form that does not depend on the file it came
// from: a tokenizer.json, a tokenizer.model and a GGUF file of one tokenizer have one hash.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/text/pipeline/added_tokens.h"
#include "common/text/pipeline/bpe.h"
#include "common/text/pipeline/decoder.h"
#include "common/text/pipeline/normalizer.h"
#include "common/text/pipeline/pre_tokenizer.h"

namespace outrider {

// SHA-256 in hex. Covered, so that it decides the ids of a text and the text of ids:
//  - the tokens by id, those of the vocabulary and the added ones, with the bytes that each
//    stands for; ids without a token (padding) are none
//  - the merges in order, what an unknown character becomes if there can be one, ignore_merges
//  - which tokens are found in a text before it is split, and how
//  - the steps of normaliser and pre-tokeniser, and what happens at the start of a decoded text
// Not covered, because ids mean the same without it: what is put around a text (<s>), which
// tokens count as special (files of one tokenizer differ in it), names, chat templates.
std::string hash_tokenizer_content(const Normalizer& normalizer, const PreTokenizer& pre_tokenizer,
                                   const BpeModel& model, const AddedTokens& added,
                                   const Decoder& decoder);

}  // namespace outrider
