// Answers in the form that OpenAI's clients read, whole or as server-sent events. The figures of
// speculation stand beside `usage`, under "outrider".
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/http/message.h"
#include "edge_client/report/answer_report.h"
#include "edge_client/session/events.h"

namespace outrider {

struct AnswerName {
  std::string id;  // "chatcmpl-.."
  std::string model;
  bool is_chat = false;
  std::int64_t created = 0;  // seconds since 1970
};

// The first event of a stream: says who speaks.
std::string first_event(const AnswerName& name);
// Tokens as they are committed; empty if they have no text yet.
std::string text_event(const AnswerName& name, const Emit& emit);
// Why it ended; with usage if that was asked for; and the end of the stream.
std::string last_events(const AnswerName& name, const AnswerReport& report, bool with_usage);
// An error after the stream has begun.
std::string error_event(const Status& status);

std::string whole_answer(const AnswerName& name, const AnswerReport& report);

// OpenAI's error object with a fitting status.
HttpResponse error_response(const Status& status);

// Whether the answer is one: not lost with its link, nor failed.
Status answer_status(const AnswerReport& report);

}  // namespace outrider
