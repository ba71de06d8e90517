// Writes Anthropic's messages (/v1/messages): an answer as a list of blocks, which are thinking,
// text and calls of tools, or as events that build that list.
//
//   message_start, ping
//   for each block: content_block_start, its deltas, content_block_stop
//   message_delta (why it ended, and its usage), message_stop
//
// Thread rule: values; a writer by one thread at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "common/serving/openai/completion_answer.h"

namespace outrider {

// name.repeated: input_tokens, the tokens of the prompt. The reply has one choice.
std::unique_ptr<AnswerWriter> message_writer(AnswerName name, const AnswerExtras& extras);

}  // namespace outrider
