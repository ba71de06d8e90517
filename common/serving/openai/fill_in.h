// Prompts for a text between two others (fill in the middle), in the forms that models learn.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/conversation.h"

namespace outrider {

// The prompt whose answer stands between `before` and `after`, in the form of which the tokenizer
// has the marks. These end an answer, as no text between has one. frame: with the tokens that begin
// a text, such as <s>. UNIMPLEMENTED: the tokenizer has the marks of no known form.
Result<EncodedPrompt> encode_between(const Tokenizer& tokenizer, const std::vector<TokenId>& before,
                                     std::string_view after, bool frame);

}  // namespace outrider
