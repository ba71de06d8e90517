// llama.cpp's routes between text and tokens, which know the names of vLLM too:
//
//   POST /tokenize     {"content" or "prompt": TEXT} to {"tokens": [ID, ..]}
//                      "parse_special" (true), "add_special" or "add_special_tokens" (false): as
//                      RawOptions says; "with_pieces": {"tokens": [{"id": ID, "piece": TEXT}, ..]}
//   POST /detokenize   {"tokens": [ID, ..]} to {"content": TEXT}
//
// Thread rule: the routes' functions from any thread. Ownership: the tokenizer outlives them.
// Errors: those of body_fields.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "common/engine/text/tokenizer.h"
#include "common/serving/http/routes.h"

namespace outrider {

std::vector<HttpRoute> token_routes(const Tokenizer& tokenizer, const HttpCheck& check);

}  // namespace outrider
