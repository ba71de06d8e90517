// Answers in the form that OpenAI's clients read, whole or as server-sent events. Who asks for them
// ("outrider": true) gets this program's figures and each token by itself, under "outrider".
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/base/json.h"
#include "common/base/status.h"

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
  bool drafted = false;   // the draft had guessed it
  bool has_token = true;  // false: text that was held back until the end
};

struct AnswerUsage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompt
  std::uint64_t completion_tokens = 0;
  std::uint64_t accepted_tokens = 0;  // drafted ones
  std::uint64_t rejected_tokens = 0;
};

// What a client may ask for beside the text.
struct AnswerExtras {
  bool usage = false;         // of streams: a last event tells it
  bool usage_so_far = false;  // of streams: every event does
  bool figures = false;       // of this program, under "outrider"
};

// How an answer ended.
struct AnswerEnd {
  bool by_length = false;  // the bound on tokens ended it; else it stopped by itself
  AnswerUsage usage = {};
  Json figures = {};  // if they are wanted
};

// The first event of a stream: says who speaks.
std::string first_event(const AnswerName& name, const AnswerExtras& extras);
// Tokens as they are committed; empty if they have no text yet. usage: so far.
std::string text_event(const AnswerName& name, const AnswerExtras& extras,
                       std::span<const AnswerPiece> pieces, const AnswerUsage& usage);
// Why it ended; with usage if that was asked for; and the end of the stream.
std::string last_events(const AnswerName& name, const AnswerExtras& extras, const AnswerEnd& end);
// An error after the stream has begun.
std::string error_event(const Status& status);

std::string whole_answer(const AnswerName& name, const AnswerExtras& extras,
                         const std::string& text, const AnswerEnd& end);

}  // namespace outrider
