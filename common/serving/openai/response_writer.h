// Writes OpenAI's responses (/v1/responses): an answer as a list of items, which are reasoning, a
// message, and calls of functions, or as events that build that list.
//
//   response.created, response.in_progress
//   for each item: output_item.added, its parts and deltas, output_item.done
//   response.completed, or response.incomplete where the token limit ended the answer
//
// Thread rule: values; a writer by one thread at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "common/serving/openai/completion_answer.h"

namespace outrider {

// name.repeated: fields of the request that each response has. The reply has one choice.
std::unique_ptr<AnswerWriter> response_writer(AnswerName name, const AnswerExtras& extras);

}  // namespace outrider
