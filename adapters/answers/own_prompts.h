// Prompts that a chat model writes itself (Magpie, Xu et al. 2024): behind what its template says
// before a user's first message, a model that learnt from conversations goes on with such a
// message. Its draft learns from them where no other text of open questions is to be had.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/conversation/chat_template.h"
#include "common/text/tokenizer.h"

namespace outrider {

// What stands before a user's first message, default system prompt included: in every family it is
// something. Errors: those of encode_chat().
Result<std::vector<TokenId>> opening_of_user_turn(const ChatTemplate& chat,
                                                  const Tokenizer& tokenizer);

// Of such continuations, in order, those that are messages: ended before max_tokens, with three
// words at least, valid as text, and each but once.
Result<std::vector<std::string>> messages_of(const std::vector<std::vector<TokenId>>& written,
                                             std::int64_t max_tokens, const Tokenizer& tokenizer);

}  // namespace outrider
