// Answers in the form that OpenAI's clients read, whole or as server-sent events. The figures of
// speculation stand beside `usage`, under "outrider".
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "common/http/message.h"

namespace outrider {

struct AnswerName {
  std::string id;  // "chatcmpl-.."
  std::string model;
  bool is_chat = false;
  std::int64_t created = 0;  // seconds since 1970
};

// A piece of an answer's text, as it is committed.
struct AnswerPiece {
  std::string text;
  bool drafted = false;  // the draft had guessed it
};

// How an answer ended.
struct AnswerEnd {
  bool by_length = false;  // the bound on tokens ended it; else it stopped by itself
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t accepted_tokens = 0;  // drafted ones
  std::uint64_t rejected_tokens = 0;
  Json figures = {};  // stands under "outrider"
};

// The first event of a stream: says who speaks.
std::string first_event(const AnswerName& name);
// Tokens as they are committed; empty if they have no text yet.
std::string text_event(const AnswerName& name, std::span<const AnswerPiece> pieces);
// Why it ended; with usage if that was asked for; and the end of the stream.
std::string last_events(const AnswerName& name, const AnswerEnd& end, bool with_usage);
// An error after the stream has begun.
std::string error_event(const Status& status);

std::string whole_answer(const AnswerName& name, const std::string& text, const AnswerEnd& end);

// What a client is told to wait for if nothing better is known.
inline constexpr Duration kRetryAfter = std::chrono::seconds(2);

// OpenAI's error object with a fitting status.
HttpResponse error_response(const Status& status, Duration retry_after = kRetryAfter);

}  // namespace outrider
